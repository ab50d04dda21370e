package import Foundation

/// Limits requests to each host; many processes may share the limits.
package protocol FetchLimiting: Sendable {
    /// Acquires a permit for a request. Every permit has to be released by `release(_:outcome:)`.
    ///
    /// - Throws: `.throttled` or another retryable error with `retryAfter`, if the request must not be made now.
    func acquire(for url: URL) async throws(ImageError) -> FetchPermit

    /// Releases a permit and reports the outcome of the request.
    func release(_ permit: FetchPermit, outcome: OriginOutcome) async
}
