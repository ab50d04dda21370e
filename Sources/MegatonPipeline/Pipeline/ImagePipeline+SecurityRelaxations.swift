internal import Foundation
internal import Logging

// Settings that are less safe than the defaults, which the article "Limits" lists.
extension ImagePipeline.Configuration: SecurityRelaxationReporting {
    package var securityRelaxations: [String] {
        var found = urlPolicy.securityRelaxations + fileAccess.securityRelaxations + renderLimits.securityRelaxations
        found += (dataLoader as? any SecurityRelaxationReporting)?.securityRelaxations ?? []
        let formats = types.subtracting(AssetType.supported).map(\.description).sorted()
        if !formats.isEmpty {
            found.append("formats with a larger attack surface are decoded: \(formats.joined(separator: ", "))")
        }
        if maximumDataSize > 64 << 20 { found.append("sources may have up to \(maximumDataSize) bytes") }
        if memoryBudget.bytes > MemoryBudget.process.bytes {
            found.append("images may use \(memoryBudget.bytes >> 20) MiB of memory")
        }
        return found.uniqued()
    }

    /// Logs these settings, once when the pipeline is created.
    func logSecurityRelaxations() {
        let found = securityRelaxations
        if found.isEmpty { return }
        logger.warning(
            "the configuration relaxes the security defaults",
            metadata: ["settings": "\(found.joined(separator: "; "))"]
        )
    }
}

extension URLPolicy: SecurityRelaxationReporting {
    package var securityRelaxations: [String] {
        let more = schemes.subtracting(URLPolicy().schemes).sorted()
        return more.isEmpty ? [] : ["sources of additional schemes are fetched: \(more.joined(separator: ", "))"]
    }
}

extension AddressPolicy: SecurityRelaxationReporting {
    package var securityRelaxations: [String] {
        let usual = AddressPolicy()
        var found: [String] = []
        if allowsPrivate { found.append("sources on loopback, private and link-local addresses are fetched") }
        let more = ports.subtracting(usual.ports).sorted().map(String.init)
        if !more.isEmpty { found.append("sources on additional ports are fetched: \(more.joined(separator: ", "))") }
        if !exceptions.isEmpty { found.append("\(exceptions.count) special addresses are allowed") }
        return found
    }
}

extension RenderLimits: SecurityRelaxationReporting {
    package var securityRelaxations: [String] {
        let usual = RenderLimits()
        let raised = [
            ("pixels", pixels > usual.pixels), ("side", side > usual.side), ("bands", bands > usual.bands),
            ("frames", frames > usual.frames), ("time", time > usual.time),
            ("outputSide", outputSide > usual.outputSide), ("outputPixels", outputPixels > usual.outputPixels),
        ]
        let names = raised.filter(\.1).map(\.0)
        return names.isEmpty ? [] : ["render limits are above the defaults: \(names.joined(separator: ", "))"]
    }
}

extension DataLoader: SecurityRelaxationReporting {
    package var securityRelaxations: [String] { configuration.securityRelaxations }
}

extension DataLoader.Configuration: SecurityRelaxationReporting {
    package var securityRelaxations: [String] {
        let usual = Self()
        var found = urlPolicy.securityRelaxations + addressPolicy.securityRelaxations
        if s3.url != nil { found.append("s3: sources are fetched from any address of the endpoint") }
        let raised = [
            ("maximumBodySize", maximumBodySize > usual.maximumBodySize),
            ("maximumRedirects", maximumRedirects > usual.maximumRedirects),
            ("connectTimeout", connectTimeout > usual.connectTimeout), ("timeout", timeout > usual.timeout),
            ("lowSpeedLimit", lowSpeedLimit < usual.lowSpeedLimit), ("lowSpeedTime", lowSpeedTime > usual.lowSpeedTime),
        ]
        let names = raised.filter(\.1).map(\.0)
        if !names.isEmpty {
            found.append("limits of loads are weaker than the defaults: \(names.joined(separator: ", "))")
        }
        return found
    }
}
