/// Outcome of a request, as far as it concerns its host.
package enum OriginOutcome: Sendable, Equatable {
    /// The host works, whatever its response to this request.
    case answered
    /// 429 or 503: the host asks for a pause, of this many seconds if it says so (RFC 9110 section 10.2.3, RFC 6585).
    case throttled(seconds: Double?)
    /// No connection, no complete response in time, or another 5xx.
    case failed
    /// Nothing is known: the request was cancelled, or never sent.
    case none
}

extension OriginOutcome {
    /// The outcome that an error stands for.
    package init(_ error: ImageError) {
        switch (error.code, error.status) {
        // Regardless of the status.
        case (.unreachable, _), (.tls, _), (.timedOut, _), (.connectTimedOut, _), (.tooSlow, _), (.incompleteBody, _),
            (.badResponse, _):
            self = .failed
        // Caused by the loader, not by the host.
        case (.dataLoadingFailed, _), (.cancelled, _): self = .none
        case (_, 429), (_, 503): self = .throttled(seconds: error.retryAfter)
        case (_, let status?): self = status >= 500 ? .failed : .answered
        case (.dataIsEmpty, _), (.dataTooLarge, _), (.headerTooLarge, _), (.tooManyRedirects, _): self = .answered
        default: self = .none
        }
    }
}
