internal import Foundation
internal import Logging

// Settings that are less safe than the defaults, which the article "Limits" lists.
extension ImagePipeline.Configuration: SecurityRelaxationReporting {
    package var securityRelaxations: [String] {
        var found = urlPolicy.securityRelaxations + fileAccess.securityRelaxations + renderLimits.securityRelaxations
        found += (dataLoader as? any SecurityRelaxationReporting)?.securityRelaxations ?? []
        let formats = types.subtracting(AssetType.supported).map(\.description).sorted()
        if !formats.isEmpty {
            found.append("formats whose codecs are less proved are decoded too: \(formats.joined(separator: ", "))")
        }
        if maximumDataSize > 64 << 20 { found.append("sources may have \(maximumDataSize) bytes") }
        if memoryBudget.bytes > MemoryBudget.process.bytes {
            found.append("pictures may take \(memoryBudget.bytes >> 20) MiB of memory")
        }
        return found.uniqued()
    }

    /// Logs these settings, once when the pipeline is created.
    func logSecurityRelaxations() {
        let found = securityRelaxations
        if found.isEmpty { return }
        logger.warning(
            "the pipeline is less safe than by default",
            metadata: ["switches": "\(found.joined(separator: "; "))"]
        )
    }
}

extension URLPolicy: SecurityRelaxationReporting {
    package var securityRelaxations: [String] {
        let more = schemes.subtracting(URLPolicy().schemes).sorted()
        return more.isEmpty ? [] : ["sources of further schemes are fetched too: \(more.joined(separator: ", "))"]
    }
}

extension AddressPolicy: SecurityRelaxationReporting {
    package var securityRelaxations: [String] {
        let usual = AddressPolicy()
        var found: [String] = []
        if allowsPrivate { found.append("sources on loopback, private and link-local addresses are fetched too") }
        let more = ports.subtracting(usual.ports).sorted().map(String.init)
        if !more.isEmpty { found.append("sources on further ports are fetched too: \(more.joined(separator: ", "))") }
        if !exceptions.isEmpty { found.append("\(exceptions.count) special addresses are connected to all the same") }
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
        return names.isEmpty ? [] : ["limits of pictures are above the usual: \(names.joined(separator: ", "))"]
    }
}

extension DataLoader: SecurityRelaxationReporting {
    package var securityRelaxations: [String] { configuration.securityRelaxations }
}

extension DataLoader.Configuration: SecurityRelaxationReporting {
    package var securityRelaxations: [String] {
        let usual = Self()
        var found = urlPolicy.securityRelaxations + addressPolicy.securityRelaxations
        if s3.url != nil { found.append("s3: sources are fetched whatever the endpoint's address is") }
        let raised = [
            ("maximumBodySize", maximumBodySize > usual.maximumBodySize),
            ("maximumRedirects", maximumRedirects > usual.maximumRedirects),
            ("connectTimeout", connectTimeout > usual.connectTimeout), ("timeout", timeout > usual.timeout),
            ("lowSpeedLimit", lowSpeedLimit < usual.lowSpeedLimit), ("lowSpeedTime", lowSpeedTime > usual.lowSpeedTime),
        ]
        let names = raised.filter(\.1).map(\.0)
        if !names.isEmpty { found.append("limits of loads are weaker than usual: \(names.joined(separator: ", "))") }
        return found
    }
}
