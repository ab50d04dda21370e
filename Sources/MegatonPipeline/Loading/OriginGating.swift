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
