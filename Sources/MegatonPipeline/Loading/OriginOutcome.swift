/// What a request says about its host.
public enum OriginOutcome: Sendable, Equatable {
    /// It works, whatever it thinks of the request.
    case answered
    /// 429 or 503: it wants to be left alone, for so many seconds if it says so (RFC 9110 section 10.2.3, RFC 6585).
    case throttled(seconds: Double?)
    /// No connection, no answer in time, or another 5xx.
    case failed
    /// Nothing: the request was cancelled, or never left us.
    case none
}

extension OriginOutcome {
    /// What a failed request says about its host.
    public init(_ error: ImagePipeline.Error) {
        switch (error.code, error.status) {
        // Whatever its answer began with.
        case (.unreachable, _), (.tls, _), (.timedOut, _), (.connectTimedOut, _), (.tooSlow, _), (.incompleteBody, _),
            (.badResponse, _):
            self = .failed
        // The loader's own doing.
        case (.dataLoadingFailed, _), (.cancelled, _): self = .none
        case (_, 429), (_, 503): self = .throttled(seconds: error.retryAfter)
        case (_, let status?): self = status >= 500 ? .failed : .answered
        case (.dataIsEmpty, _), (.dataTooLarge, _), (.headerTooLarge, _), (.tooManyRedirects, _): self = .answered
        default: self = .none
        }
    }
}
