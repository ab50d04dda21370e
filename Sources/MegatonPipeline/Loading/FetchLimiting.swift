package import Foundation

/// Limits requests to each host; many processes may share the limits.
package protocol FetchLimiting: Sendable {
    /// Acquires a permit for a request. Every permit has to be released by `release(_:outcome:cause:)`.
    ///
    /// - Throws: `.throttled` or another retryable error with `retryAfter`, if the request must not be made now.
    func acquire(for url: URL) async throws(ImageError) -> FetchPermit

    /// Notes that bytes of a response have arrived, for a permit with `isFirst`. Called on the loader's thread, so it
    /// must not block, and for each chunk.
    func noteFirstBytes(_ permit: FetchPermit)

    /// Releases a permit and reports the outcome of the request.
    ///
    /// - Parameter cause: the error of the request, if it has failed.
    /// - Returns: the turn of its host, if the host is given up because of this failure and those before.
    @discardableResult
    func release(_ permit: FetchPermit, outcome: OriginOutcome, cause: ImageError?) async -> HostTurn?
}

extension FetchLimiting {
    /// Ignores the first bytes.
    package func noteFirstBytes(_ permit: FetchPermit) {}

    /// Releases a permit of a request without a known error.
    package func release(_ permit: FetchPermit, outcome: OriginOutcome) async {
        await release(permit, outcome: outcome, cause: nil)
    }
}

/// Permit for one request.
package struct FetchPermit: Sendable, Hashable {
    /// Name of the origin in the limiter.
    package let host: String
    /// Name of the permit in the limiter; nil if it is not counted.
    package let token: String?
    /// Whether no byte had ever arrived from the host by then, as far as the limiter knows.
    package let isFirst: Bool

    package init(host: String, token: String?, isFirst: Bool = false) {
        self.host = host
        self.token = token
        self.isFirst = isFirst
    }
}

/// Outcome of a request, as far as it concerns its host.
package enum OriginOutcome: Sendable, Equatable {
    /// The host works, whatever its response to this request.
    case answered
    /// 429 or 503: the host asks for a pause, of this many seconds if it says so (RFC 9110 section 10.2.3, RFC 6585).
    case throttled(seconds: Double?)
    /// Another 5xx.
    case failed
    /// No connection, no valid TLS, or no complete response: not in time, or none that can be used. A host that has
    /// only such ends has never answered.
    case absent
    /// Nothing is known: the request was cancelled, or never sent.
    case none
}

extension OriginOutcome {
    /// The outcome that an error stands for.
    package init(_ error: ImageError) {
        switch (error.code, error.status) {
        // Regardless of the status.
        case (.unreachable, _), (.tls, _), (.timedOut, _), (.connectTimedOut, _), (.tooSlow, _),
            (.incompleteBody, _), (.badResponse, _):
            self = .absent
        // Caused by the loader, not by the host.
        case (.dataLoadingFailed, _), (.cancelled, _): self = .none
        case (_, 429), (_, 503): self = .throttled(seconds: error.retryAfter)
        case (_, let status?): self = status >= 500 ? .failed : .answered
        case (.dataIsEmpty, _), (.dataTooLarge, _), (.headerTooLarge, _), (.tooManyRedirects, _): self = .answered
        default: self = .none
        }
    }
}

/// Grants every permit: for a pipeline without host limits.
package struct UnlimitedFetches: FetchLimiting {
    package init() {}

    package func acquire(for url: URL) async throws(ImageError) -> FetchPermit {
        FetchPermit(host: url.host() ?? "", token: nil)
    }

    package func release(_ permit: FetchPermit, outcome: OriginOutcome, cause: ImageError?) async -> HostTurn? { nil }
}
