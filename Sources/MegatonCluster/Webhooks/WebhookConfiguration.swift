package import Foundation
internal import MegatonPipeline

/// How a coordinator sends outcomes to webhooks.
package struct WebhookConfiguration: Sendable {
    /// Webhooks that jobs may name.
    package var rules = WebhookRules()
    /// Keys with which requests are signed.
    let signature: WebhookSignature
    /// Network addresses that may be connected to; see also `connectionPolicy`.
    package var addressPolicy = AddressPolicy()
    /// When a failed request is repeated.
    var schedule = WebhookSchedule()
    /// When a host that fails is left alone.
    var circuit = JobQueue.WebhookCircuit()
    /// Time limit of a request.
    var requestTimeout: Duration = .seconds(10)
    /// Time limit for establishing a connection, TLS included.
    var connectTimeout: Duration = .seconds(5)
    /// Maximum number of requests at a time.
    var concurrency = 32
    /// Maximum number of requests at a time to one host.
    var hostConcurrency = 4
    /// Time after which a webhook is sent again if its coordinator died. Longer than a request and its settlement take.
    var lease: Duration = .seconds(30)
    /// How long requests may go on when the coordinator ends.
    var shutdownGrace: Duration = .seconds(2)

    /// - Parameter keys: secrets, one of which the receiver knows.
    package init(keys: [Data]) { signature = WebhookSignature(keys: keys) }

    /// Network addresses that are connected to: `addressPolicy`, with the ports that rules for hosts name. A URL with
    /// such a port must match a rule, so that the port is open to the hosts of these rules alone.
    ///
    /// - Throws: `.invalidURL` for a text that is not a rule.
    func connectionPolicy() throws(ImageError) -> AddressPolicy {
        var policy = addressPolicy
        for rule in try rules.sourceRules() {
            if let ports = rule.namedPorts { policy.ports.formUnion(ports) }
        }
        return policy
    }
}

/// The webhooks that jobs may name: rules that all coordinators of a queue share, without secrets. A coordinator
/// publishes them in Redis for a worker that has to take over.
package struct WebhookRules: Sendable, Equatable, Codable {
    /// Rules in the notation of `SourceRule`; all hosts if empty.
    package var hosts: [String] = []
    /// Whether `http:` URLs may be named, too.
    package var allowsHTTP = false
    /// Ports that may be named if `hosts` is empty: otherwise the rules for hosts have the ports. Nil for any: a name
    /// may have a private address, whose ports no policy limits.
    package var ports: [Int]?

    package init() {}

    /// The rules for hosts.
    ///
    /// - Throws: `.invalidURL` for a text that is not a rule.
    package func sourceRules() throws(ImageError) -> [SourceRule] {
        var rules: [SourceRule] = []
        for host in hosts { rules.append(try SourceRule(host)) }
        return rules
    }

    /// URLs that may be requested.
    ///
    /// - Throws: `.invalidURL` for a text that is not a rule.
    package func urlPolicy() throws(ImageError) -> URLPolicy {
        URLPolicy(schemes: allowsHTTP ? ["http", "https"] : ["https"], sources: try sourceRules())
    }

    /// The reason why jobs may not name a webhook, as the rest of a sentence that begins with the field; nil if they
    /// may.
    func problem(ofWebhook text: String) -> String? {
        guard let url = URL(string: text) else { return "is no URL" }
        // Without the path, which may be a secret: the message goes into ledgers.
        let name = "is a URL of \(FieldProblem.quoted(url.host() ?? ""))"
        if url.scheme?.lowercased() == "http", !allowsHTTP {
            return "\(name); allowed are https: URLs, unless the coordinator has --webhook-allow-http"
        }
        do throws(ImageError) {
            let port = try urlPolicy().check(url)?.port
            guard hosts.isEmpty, let ports, let port, !ports.contains(port) else { return nil }
            let allowed = ports.map(String.init).joined(separator: ", ")
            return "\(name) with the port \(port); the coordinator allows \(allowed) (--webhook-port)"
        } catch {
            return hosts.isEmpty
                ? "\(name), which cannot be used: \(error.message)"
                : "\(name), which is not among the hosts that the coordinator allows (--webhook-host)"
        }
    }
}

/// When an outcome is sent to a webhook again, and when it is given up. Pure, no I/O.
///
/// The delays are 5 s, 20 s, 80 s and so on, up to two hours, each longer or shorter by up to a fifth. So twelve
/// attempts take about twelve hours, in which a server can be repaired.
struct WebhookSchedule: Sendable {
    /// Maximum number of attempts.
    var attempts = 12
    /// Maximum age of an outcome in the queue of webhooks.
    var age: Duration = .seconds(24 * 3600)
    var firstDelay: Duration = .seconds(5)
    var factor = 4.0
    var longestDelay: Duration = .seconds(2 * 3600)
    /// A longer Retry-After is shortened to this.
    var longestRetryAfter: Duration = .seconds(3600)

    /// The whole hours of `age`, for messages.
    var hours: Int { Int(age.inSeconds / 3600) }
    /// Why an outcome that is older is dropped.
    var expiry: String { "it has waited for more than \(hours) h" }

    /// The pause after a failed attempt; nil if it was the last.
    ///
    /// - Parameters:
    ///   - attempt: number of the attempt, from 1.
    ///   - retryAfter: seconds that the server has asked for; nil if it has not.
    ///   - jitter: factor, so that outcomes which failed together do not come together again.
    func delay(
        after attempt: Int,
        retryAfter: Double? = nil,
        jitter: Double = .random(in: 0.8...1.2)
    ) -> Duration? {
        guard attempt < attempts else { return nil }
        let first = firstDelay.inSeconds * pow(factor, Double(max(attempt, 1) - 1))
        let delay = min(first, longestDelay.inSeconds) * jitter
        let wish = retryAfter.map { min(max($0, 0), longestRetryAfter.inSeconds) } ?? 0
        return .seconds(max(delay, wish))
    }
}
