internal import Foundation
internal import FoundationNetworking
internal import MegatonPipeline

/// Sends one outcome to a webhook by HTTP POST.
///
/// A URL comes from a job, so that the rules are those for sources: the address is checked after the name was resolved,
/// private networks are refused by default, and a redirect is not followed.
struct WebhookSender: Sendable {
    /// Result of a request.
    enum Answer: Sendable, Equatable {
        /// Status 2xx.
        case delivered
        /// A repetition has no use: the receiver wants no more (410), or the request may not be sent.
        case refused(reason: String, hasAnswered: Bool?)
        /// - retryAfter: seconds that the host has asked for.
        /// - hasAnswered: whether the host works, although not for this request.
        case failed(reason: String, retryAfter: Double?, hasAnswered: Bool)
        /// The request was ended on this side.
        case cancelled
        /// This process could not make the request, as it has too many open files: that is no fault of the host.
        case postponed(reason: String)
    }

    private let loader: DataLoader
    private let signature: WebhookSignature
    private let policy: URLPolicy

    /// Maximum number of bytes of an outcome. Those of jobs have some 64 KiB at most, apart from many long paths.
    private static let maximumBody = 1024 * 1024
    /// Statuses of a host that is overloaded or whose server is away; others are about the request.
    private static let failing: Set<Int> = [429, 502, 503, 504]

    /// - Throws: `.invalidURL` if a rule for hosts cannot be read.
    init(_ configuration: WebhookConfiguration) throws(ImageError) {
        signature = configuration.signature
        policy = try configuration.rules.urlPolicy()
        var settings = DataLoader.Configuration()
        settings.urlPolicy = policy
        settings.addressPolicy = try configuration.connectionPolicy()
        settings.connectTimeout = configuration.connectTimeout
        settings.timeout = configuration.requestTimeout
        settings.lowSpeedTime = configuration.requestTimeout
        settings.maximumRedirects = 0
        settings.maximumHostConnections = configuration.hostConcurrency
        settings.maximumConnections = configuration.concurrency
        settings.userAgent = "megaton/\(Megaton.version)"
        // Each response ends as an error with its status. So the loader reads the beginning of the body only, as it
        // does with the page of an error: the body of an answer has no meaning here.
        loader = DataLoader(settings) { response in
            guard let response = response as? HTTPURLResponse else { return nil }
            return HTTPStatusError.error(
                status: response.statusCode,
                headers: response.lowercasedHeaders,
                url: response.url?.host() ?? "the host"
            )
        }
    }

    /// Sends a request; its time limit is that of the configuration.
    func send(_ webhook: ClaimedWebhook) async -> Answer {
        guard let url = URL(string: webhook.url) else {
            return .refused(reason: "the URL cannot be read", hasAnswered: nil)
        }
        guard webhook.outcome.count <= Self.maximumBody else {
            let reason = "the outcome has \(webhook.outcome.count) bytes; allowed are \(Self.maximumBody)"
            return .refused(reason: reason, hasAnswered: nil)
        }
        do throws(ImageError) {
            // The rules may have changed since the job was admitted.
            try policy.check(url)
        } catch {
            return .refused(reason: Self.plain(error, url, webhook).message, hasAnswered: nil)
        }
        do throws(ImageError) {
            _ = try await loader.data(for: request(webhook, to: url), limit: Self.maximumBody)
            // Every response is an error, see `init`.
            return .failed(reason: "the answer has no status", retryAfter: nil, hasAnswered: true)
        } catch {
            return Self.answer(Self.plain(error, url, webhook))
        }
    }

    /// The error without the path of the webhook, which may be its secret, as reasons are logged; and with the options
    /// of the coordinator in the place of settings.
    private static func plain(_ error: ImageError, _ url: URL, _ webhook: ClaimedWebhook) -> ImageError {
        var error = error
        error.message = error.message.replacing(url.redacted, with: webhook.host)
            .replacing("could not be fetched", with: "could not be reached")
            .replacing("is not fetched", with: "is not asked")
            .replacing("AddressPolicy.allowsPrivate", with: "--webhook-allow-private")
            .replacing("add it to AddressPolicy.ports", with: "give it with --webhook-port")
            .replacing("set DataLoader.Configuration.caFile", with: "add it to the system's (update-ca-certificates)")
        return error
    }

    /// The request, signed for this moment.
    func request(_ webhook: ClaimedWebhook, to url: URL, at time: Date = Date()) -> URLRequest {
        var request = URLRequest(url: url)
        request.httpMethod = "POST"
        request.httpBody = webhook.outcome
        let fields = [
            "Content-Type": "application/json",
            "Idempotency-Key": webhook.idempotencyKey,
            "Megaton-Attempt": "\(webhook.attempt)",
            "Megaton-Job": webhook.job.id,
            "Megaton-Signature": signature.field(of: webhook.outcome, at: Int(time.timeIntervalSince1970)),
        ]
        for (name, value) in fields { request.setValue(value, forHTTPHeaderField: name) }
        return request
    }

    /// The answer that the error of a request stands for.
    static func answer(_ error: ImageError) -> Answer {
        guard let status = error.status else {
            switch error.code {
            case .cancelled: return .cancelled
            case .throttled: return .postponed(reason: error.message)
            case .invalidURL: return .refused(reason: error.message, hasAnswered: nil)
            case .tooManyRedirects:
                let reason = "the host answered with a redirect, which is not followed; name its target in the jobs"
                return .failed(reason: reason, retryAfter: nil, hasAnswered: true)
            // Also a forbidden address: a name may have another one later.
            default: return .failed(reason: error.message, retryAfter: nil, hasAnswered: false)
            }
        }
        switch status {
        case 200..<300: return .delivered
        case 410: return .refused(reason: error.message, hasAnswered: true)
        default:
            let isAsked = status == 429 || status == 503
            return .failed(
                reason: error.message,
                retryAfter: isAsked ? error.requestedDelay : nil,
                hasAnswered: !failing.contains(status)
            )
        }
    }
}
