internal import Foundation
package import MegatonPipeline

/// Lifetimes of remembered failures, which keep waiters from asking the origin one after the other.
///
/// The response of the origin takes precedence: `no-store` is not remembered, `max-age` and `Expires` limit the time,
/// and a Retry-After is respected.
package struct NegativePolicy: Sendable {
    package init() {}

    /// Maximum Retry-After that is respected, seconds.
    static let longestRequestedDelay: Double = 24 * 3600

    /// The time for which a failure is remembered.
    ///
    /// - Parameter random: 0 to 1; varies the time by up to a tenth, so that many failures do not expire together.
    /// - Returns: `.zero` if the failure must not be remembered, which also clears an earlier one; nil if it says
    ///   nothing about the next attempt, so that an earlier one stays remembered.
    package func lifetime(of error: ImagePipeline.Error, random: Double = .random(in: 0...1)) -> Duration? {
        // Returned from memory: it is remembered already, and expires there.
        if error.remembered != nil { return .zero }
        // The host was not asked, and its turn may come early: a job that met its own refusal then would wait once
        // more, with the turn of its host. Only those who wait for this flight receive it.
        if error.code == .throttled { return .zero }
        guard let usual = Self.usual(error) else { return nil }
        // Exactly that long: no request is sent meanwhile, and a job that retries at the time the origin named must not
        // meet its own failure.
        if let delay = error.requestedDelay, delay > 0 { return .seconds(min(delay, Self.longestRequestedDelay)) }
        var seconds = usual * (0.9 + 0.2 * random)
        if let stated = error.reuse?.lifetime { seconds = min(seconds, max(0, stated)) }
        return .seconds(seconds)
    }

    /// Seconds if the origin names no time; nil if the failure says nothing about the next attempt.
    private static func usual(_ error: ImagePipeline.Error) -> Double? {
        switch error.code {
        case .notFound: 60
        case .accessDenied: 30
        case .httpStatus: error.isRetryable ? max(5, min(error.retryAfter ?? 0, longestRequestedDelay)) : 30
        case .unreachable, .tls, .timedOut, .connectTimedOut, .tooSlow, .incompleteBody, .badResponse,
            .tooManyRedirects:
            max(5, min(error.retryAfter ?? 0, longestRequestedDelay))
        case .dataIsEmpty, .dataTooLarge, .headerTooLarge, .unsupportedFormat, .corruptImage, .imageTooLarge,
            .sideTooLong, .tooManyBands, .tooManyFrames:
            600
        case .renderTimedOut: 60
        // Rules and outputs belong to the request, not to the source; the others say nothing about the source at all.
        case .throttled, .invalidURL, .forbidden, .credentialMissing, .watermarkMissing, .renderFailed, .outputFailed,
            .outputExists, .diskFull, .waitTimedOut, .cancelled, .outputTooLarge, .tooCostly, .dataLoadingFailed,
            .dataMissingInCache,
            .decoderNotRegistered,
            .processingFailed, .encodingFailed, .pipelineInvalidated:
            nil
        }
    }
}
