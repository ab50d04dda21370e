import ArgumentParser
import Foundation
import MegatonCluster
import MegatonPipeline

/// What a worker may reach. Everything is closed unless it is opened here.
struct WorkerOptions: ParsableArguments {
    @Option(
        name: .customLong("allow-root"),
        help: ArgumentHelp(
            "Read file: sources and write file: outputs beneath this directory; repeatable.",
            valueName: "dir"
        )
    )
    var allowRoot: [String] = []

    @Flag(name: .customLong("allow-private"), help: "Fetch from loopback, private and link-local addresses too.")
    var allowPrivate = false

    @Option(
        name: .customLong("allow-port"),
        help: ArgumentHelp(
            "Fetch from this port of public addresses, beside 80 and 443; repeatable.",
            valueName: "port"
        )
    )
    var allowPort: [Int] = []

    @Option(
        name: .customLong("cache-policy"),
        help: "What the shared cache keeps: all, automatic, original, encoded or none."
    )
    var cachePolicy = "all"

    @Option(
        name: .customLong("host-concurrency"),
        help: "Requests that the whole cluster may have under way to one host."
    )
    var hostConcurrency = 64

    @Option(
        name: .customLong("host-rate"),
        help: ArgumentHelp("Requests a second that the whole cluster may send to one host.", valueName: "number")
    )
    var hostRate: Double?

    mutating func validate() throws {
        if !(1...100_000).contains(hostConcurrency) { throw ValidationError("--host-concurrency is 1 to 100000.") }
        if let hostRate, !(hostRate >= 0.001 && hostRate <= 1e6) {
            throw ValidationError("--host-rate is 0.001 to 1000000 a second.")
        }
        if ImagePipeline.DataCachePolicy(rawValue: cachePolicy) == nil {
            throw ValidationError(
                "--cache-policy is all, automatic, original, encoded or none, not \"\(cachePolicy)\"."
            )
        }
        for port in allowPort where !(1...65535).contains(port) {
            throw ValidationError("--allow-port is 1 to 65535, not \(port).")
        }
        for root in allowRoot {
            var isDirectory: ObjCBool = false
            guard FileManager.default.fileExists(atPath: root, isDirectory: &isDirectory), isDirectory.boolValue else {
                throw ValidationError("--allow-root \(root) is no directory.")
            }
        }
    }

    var addressPolicy: AddressPolicy {
        AddressPolicy(allowsPrivate: allowPrivate, ports: Set(allowPort).union([80, 443]))
    }

    var hostLimits: HostLimits {
        var limits = HostLimits()
        limits.concurrency = hostConcurrency
        limits.rate = hostRate
        return limits
    }

    var policy: ImagePipeline.DataCachePolicy { ImagePipeline.DataCachePolicy(rawValue: cachePolicy) ?? .storeAll }

    var roots: [String] { allowRoot.map { URL(fileURLWithPath: $0).standardizedFileURL.path } }

    /// The same options for a worker process.
    var arguments: [String] {
        var arguments = allowRoot.flatMap { ["--allow-root", $0] }
        if allowPrivate { arguments.append("--allow-private") }
        for port in allowPort { arguments += ["--allow-port", String(port)] }
        arguments += ["--cache-policy", cachePolicy, "--host-concurrency", String(hostConcurrency)]
        if let hostRate { arguments += ["--host-rate", String(hostRate)] }
        return arguments
    }
}
