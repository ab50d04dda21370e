import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Webhooks to which a coordinator sends outcomes.
struct WebhookOptions: ParsableArguments {
    @Option(
        name: .customLong("webhook-key"),
        help: ArgumentHelp(
            "Allow jobs to name webhooks, and sign the requests with the key of this file, at least 16 bytes; each of "
                + "several lines is a key. Only the coordinator's user should be able to read it.",
            valueName: "file"
        ),
        completion: .file()
    )
    var key: String?

    @Option(
        name: .customLong("webhook-host"),
        help: ArgumentHelp(
            "Send outcomes to these hosts only: [scheme://]host[:port][/path], *.host for all subdomains, host:* for "
                + "any port. A port of a rule needs no --webhook-port. Repeatable; by default all hosts are allowed.",
            valueName: "rule"
        )
    )
    var hosts: [String] = []

    @Option(
        name: .customLong("webhook-port"),
        help: ArgumentHelp(
            "Without --webhook-host, send outcomes to this port of public addresses too, beside 80 and 443. Repeatable.",
            valueName: "port"
        )
    )
    var ports: [Int] = []

    @Flag(
        name: .customLong("webhook-allow-http"),
        help: "Allow webhooks without TLS (http:): outcomes and signatures can then be read on their way."
    )
    var allowHTTP = false

    @Flag(
        name: .customLong("webhook-allow-private"),
        help: "Send outcomes to loopback, private and link-local addresses too."
    )
    var allowPrivate = false

    mutating func validate() throws {
        if key?.isEmpty == true { throw ValidationError("--webhook-key is empty; it must name a file.") }
        for port in ports { try OptionRange.check("--webhook-port", port, 1...65535) }
        for host in hosts where ["s3://", "ftp://"].contains(where: host.lowercased().hasPrefix) {
            throw ValidationError("--webhook-host: \"\(host)\" allows nothing: a webhook is an https or http URL.")
        }
        let sources: [SourceRule]
        do {
            sources = try rules.sourceRules()
        } catch {
            throw ValidationError("--webhook-host: \(error.message)")
        }
        let named = sources.compactMap(\.namedPorts)
        let unnamed = ports.first { port in
            !Self.usualPorts.contains(port) && !named.contains { $0.contains(port) }
        }
        if let unnamed, !sources.isEmpty {
            throw ValidationError(
                "--webhook-port \(unnamed) has no effect, as no --webhook-host has this port; write it behind the host, "
                    + "as in --webhook-host example.com:\(unnamed)."
            )
        }
        let others: [(name: String, isGiven: Bool)] = [
            ("--webhook-host", !hosts.isEmpty), ("--webhook-port", !ports.isEmpty),
            ("--webhook-allow-http", allowHTTP), ("--webhook-allow-private", allowPrivate),
        ]
        if key == nil, let other = others.first(where: \.isGiven) {
            throw ValidationError("\(other.name) has no effect without --webhook-key FILE, which allows webhooks.")
        }
    }

    private var rules: WebhookRules {
        var rules = WebhookRules()
        rules.hosts = hosts
        rules.allowsHTTP = allowHTTP
        rules.ports = allowPrivate ? nil : allPorts.sorted()
        return rules
    }

    private static let usualPorts: Set<Int> = [80, 443]

    private var allPorts: Set<Int> { Self.usualPorts.union(ports) }

    /// The configuration of a coordinator; nil without a key.
    ///
    /// - Throws: `CLIError` if the file of the key cannot be used; never with a key in it.
    func configuration(logger: Logger) throws -> WebhookConfiguration? {
        guard let key else { return nil }
        let (keys, isExposed) = try Self.keys(of: key)
        if isExposed { logger.warning("the file of --webhook-key is readable by others; run chmod 600 on it") }
        var configuration = WebhookConfiguration(keys: keys)
        configuration.rules = rules
        configuration.addressPolicy = AddressPolicy(allowsPrivate: allowPrivate, ports: allPorts)
        return configuration
    }

    /// The keys of a file, and whether its group or others may read it too.
    ///
    /// - Throws: `CLIError` if the file cannot be used; never with a key in it.
    static func keys(of path: String) throws -> (keys: [Data], isExposed: Bool) {
        let file = try SecretFile(path, option: "--webhook-key")
        do {
            return (try WebhookKeyFile.keys(file.content), file.isExposed)
        } catch {
            throw CLIError.usage("--webhook-key \(path) \(error.text).")
        }
    }
}
