internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import MegatonPipeline

/// The response to a request whose image could not be made.
///
/// The detail is general: the message of the error has addresses and limits, which are for the log.
struct ImageFailure: Equatable {
    let status: HTTPResponse.Status
    /// A sentence for the client.
    let detail: String
    /// Seconds until the next attempt; nil if the failure says nothing about that.
    var retryAfter: Int?

    /// Whether the source or its origin is the reason, so that a fallback image takes the place of the image. Faults of
    /// the URL and limits of the server must stay visible.
    var isOfSource: Bool {
        [.notFound, .unprocessableContent, .badGateway, .gatewayTimeout].contains(status)
    }

    /// Longest `Retry-After`, seconds.
    private static let longestDelay = 3600.0

    /// - Parameter rendition: the requested image, whose own limit may be the reason.
    init(_ error: ImagePipeline.Error, of rendition: Rendition? = nil) {
        let code = error.code.rawValue
        switch error.code {
        // Of a redirect, which is the origin's.
        case .invalidURL where error.status != nil:
            (status, detail) = (.badGateway, "The origin of the image redirects to no URL of an image (\(code)).")
        case .invalidURL:
            (status, detail) = (.badRequest, "The source of the image is no URL that this server loads (\(code)).")
        case .forbidden:
            (status, detail) = (.forbidden, "This server may not load the source of the image (\(code)).")
        case .notFound:
            (status, detail) = (.notFound, "The origin does not have the image (\(code)).")
        case .httpStatus where error.status == 404 || error.status == 410:
            (status, detail) = (.notFound, "The origin does not have the image (\(code)).")
        case .httpStatus, .accessDenied:
            let number = error.status.map { " with the status \($0)" } ?? ""
            (status, detail) = (.badGateway, "The origin of the image refused the request\(number) (\(code)).")
        case .unreachable, .tls, .incompleteBody, .badResponse, .tooManyRedirects, .dataIsEmpty, .dataLoadingFailed:
            (status, detail) = (.badGateway, "The image could not be loaded from its origin (\(code)).")
        case .headerTooLarge where error.stage == .load:
            (status, detail) = (.badGateway, "The image could not be loaded from its origin (\(code)).")
        case .timedOut, .connectTimedOut, .tooSlow:
            (status, detail) = (.gatewayTimeout, "The origin of the image took too long (\(code)).")
        case .unsupportedFormat, .corruptImage, .decoderNotRegistered:
            (status, detail) = (
                .unprocessableContent, "The source is not an image that this server can read (\(code))."
            )
        case .outputTooLarge where Self.isOfMaxBytes(error, rendition):
            let limit = rendition?.maxBytes.map { " (max_bytes, mb): \($0)" } ?? " (max_bytes, mb)"
            (status, detail) = (
                .unprocessableContent,
                "The image has more bytes, even at the lowest quality, than its URL allows\(limit). Allow more bytes, "
                    + "a smaller size or another format (\(code))."
            )
        case .dataTooLarge, .headerTooLarge, .imageTooLarge, .sideTooLong, .tooManyBands, .tooManyFrames,
            .outputTooLarge, .tooCostly, .renderTimedOut:
            (status, detail) = (
                .unprocessableContent,
                "The image is larger, or takes longer to render, than this server allows (\(code))."
            )
        case .throttled, .waitTimedOut, .cancelled, .pipelineInvalidated, .dataMissingInCache, .diskFull:
            (status, detail) = (
                .serviceUnavailable,
                "The image cannot be made now (\(code)); try again after the time of Retry-After."
            )
            retryAfter = Int(min(max(1, (error.retryAfter ?? 1).rounded(.up)), Self.longestDelay))
        case .renderFailed, .processingFailed, .encodingFailed, .credentialMissing, .watermarkMissing, .outputFailed,
            .outputExists:
            (status, detail) = (
                .internalServerError, "The server could not make the image (\(code)); its log has the reason."
            )
        }
    }

    /// Whether the image exceeds `maxBytes`. Other limits of an output are exceeded before it is encoded. The failure
    /// of a worker has no stage: the limit of the URL is then the likely one.
    private static func isOfMaxBytes(_ error: ImagePipeline.Error, _ rendition: Rendition?) -> Bool {
        error.stage == .encode || error.stage == nil && rendition?.maxBytes != nil
    }

    func response() throws -> Response {
        var headers: HTTPFields = [:]
        if let retryAfter { headers[.retryAfter] = "\(retryAfter)" }
        return try ProblemDocument(status, detail).response(headers)
    }
}
