internal import Foundation
public import MegatonPipeline

/// How long a failure is remembered, so that those who waited for it do not ask the origin one after the other.
public struct NegativePolicy: Sendable {
    public init() {}

    /// Nil where the failure says nothing about the next try.
    ///
    /// - Parameter random: 0 to 1; the time varies by a tenth, so that many do not run out together.
    public func lifetime(of error: ImagePipeline.Error, random: Double = .random(in: 0...1)) -> Duration? {
        // Those who ask for the same meanwhile are told too; whoever has a turn must not meet it when it has come.
        if error.code == .throttled { return .seconds(0.8 * (error.retryAfter ?? 0)) }
        let seconds: Double? =
            switch error.code {
            case .notFound: 60
            case .accessDenied: 30
            case .httpStatus: error.isRetryable ? max(5, error.retryAfter ?? 0) : 30
            case .unreachable, .tls, .timedOut, .connectTimedOut, .tooSlow, .incompleteBody, .tooManyRedirects:
                max(5, error.retryAfter ?? 0)
            case .throttled: nil
            case .dataIsEmpty, .dataTooLarge, .headerTooLarge, .unsupportedFormat, .corruptImage, .imageTooLarge,
                .sideTooLong, .tooManyBands, .tooManyFrames:
                600
            case .renderTimedOut: 60
            // Rules and outputs are the asker's, not the source's; the rest says nothing about the source at all.
            case .invalidURL, .forbidden, .credentialMissing, .renderFailed, .outputFailed, .diskFull, .waitTimedOut,
                .cancelled, .outputTooLarge, .tooCostly, .dataLoadingFailed, .dataMissingInCache, .decoderNotRegistered,
                .processingFailed, .encodingFailed, .pipelineInvalidated:
                nil
            }
        return seconds.map { .seconds($0 * (0.9 + 0.2 * random)) }
    }
}
