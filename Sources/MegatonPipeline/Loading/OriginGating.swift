public import Foundation

/// Decides whether an origin may be asked now: politeness towards hosts, which many processes may share.
public protocol OriginGating: Sendable {
    /// Asks for leave. Every pass must be given back by `leave`.
    ///
    /// - Throws: `.throttled` or another retryable error with `retryAfter`: the request is not to be made now.
    func enter(_ url: URL) async throws(ImagePipeline.Error) -> OriginPass

    /// Gives a pass back, and says how it went.
    func leave(_ pass: OriginPass, _ outcome: OriginOutcome) async
}

/// Leave to make one request.
public struct OriginPass: Sendable, Hashable {
    /// What the gate knows the origin by.
    public let host: String
    /// What the gate knows the pass by; nil where nobody counts it.
    public let token: String?

    public init(host: String, token: String?) {
        self.host = host
        self.token = token
    }
}

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
        switch error.status {
        case 429, 503: self = .throttled(seconds: error.retryAfter)
        case let status?: self = status >= 500 ? .failed : .answered
        case nil:
            switch error.code {
            case .unreachable, .tls, .timedOut, .incompleteBody: self = .failed
            case .dataIsEmpty, .dataTooLarge, .tooManyRedirects: self = .answered
            default: self = .none
            }
        }
    }
}

/// A gate that is always open: for a pipeline that stands alone.
public struct OpenGate: OriginGating {
    public init() {}

    public func enter(_ url: URL) async throws(ImagePipeline.Error) -> OriginPass {
        OriginPass(host: url.host() ?? "", token: nil)
    }

    public func leave(_ pass: OriginPass, _ outcome: OriginOutcome) async {}
}
