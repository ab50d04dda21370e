public import Foundation

/// Limits requests to each host; many processes may share the limits.
public protocol OriginGating: Sendable {
    /// Acquires a permit for a request. Every permit has to be released by `leave`.
    ///
    /// - Throws: `.throttled` or another retryable error with `retryAfter`, if the request must not be made now.
    func enter(_ url: URL) async throws(ImagePipeline.Error) -> OriginPass

    /// Releases a permit and reports the outcome of the request.
    func leave(_ pass: OriginPass, _ outcome: OriginOutcome) async
}
