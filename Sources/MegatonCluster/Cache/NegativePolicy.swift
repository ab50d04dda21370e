internal import Foundation
public import MegatonPipeline

/// How long a failure is remembered, so that those who waited for it do not ask the origin one after the other.
///
/// The origin's answer has the last word: `no-store` is not remembered, `max-age` and `Expires` bound the time, and a
/// Retry-After is kept.
public struct NegativePolicy: Sendable {
    public init() {}

    /// The longest time for which a Retry-After is kept, seconds.
    static let longestRequestedDelay: Double = 24 * 3600

    /// - Parameter random: 0 to 1; the time varies by a tenth, so that many do not run out together.
    /// - Returns: `.zero` if the failure must not be remembered, which also ends the memory of an earlier one; nil if it
    ///   says nothing about the next try, so that an earlier one stays remembered.
    public func lifetime(of error: ImagePipeline.Error, random: Double = .random(in: 0...1)) -> Duration? {
        // From memory: it ends where it is remembered already.
        if error.remembered != nil { return .zero }
        // Those who ask for the same meanwhile are told too; whoever has a turn must not meet it when it has come.
        if error.code == .throttled {
            return .seconds(0.8 * min(error.retryAfter ?? 0, Self.longestRequestedDelay))
        }
        guard let usual = Self.usual(error) else { return nil }
        // Exactly that long: nobody asks meanwhile, and a job that asks when the origin said must not meet its own failure.
        if let delay = error.requestedDelay, delay > 0 { return .seconds(min(delay, Self.longestRequestedDelay)) }
        var seconds = usual * (0.9 + 0.2 * random)
        if let stated = error.reuse?.lifetime { seconds = min(seconds, max(0, stated)) }
        return .seconds(seconds)
    }

    /// Seconds if the origin does not say; nil if the failure says nothing about the next try.
    private static func usual(_ error: ImagePipeline.Error) -> Double? {
        switch error.code {
        case .notFound: 60
        case .accessDenied: 30
        case .httpStatus: error.isRetryable ? max(5, min(error.retryAfter ?? 0, longestRequestedDelay)) : 30
        case .unreachable, .tls, .timedOut, .connectTimedOut, .tooSlow, .incompleteBody, .badResponse,
            .tooManyRedirects:
            max(5, min(error.retryAfter ?? 0, longestRequestedDelay))
        case .throttled: nil
        case .dataIsEmpty, .dataTooLarge, .headerTooLarge, .unsupportedFormat, .corruptImage, .imageTooLarge,
            .sideTooLong, .tooManyBands, .tooManyFrames:
            600
        case .renderTimedOut: 60
        // Rules and outputs are the asker's, not the source's; the rest says nothing about the source at all.
        case .invalidURL, .forbidden, .credentialMissing, .renderFailed, .outputFailed, .outputExists, .diskFull,
            .waitTimedOut, .cancelled, .outputTooLarge, .tooCostly, .dataLoadingFailed, .dataMissingInCache,
            .decoderNotRegistered,
            .processingFailed, .encodingFailed, .pipelineInvalidated:
            nil
        }
    }
}
