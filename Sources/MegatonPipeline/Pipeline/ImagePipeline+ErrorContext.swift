internal import Foundation
internal import FoundationNetworking

// What an error is told on its way out, by those who know it.
extension ImagePipeline.Error {
    /// The same with where it went wrong, and what was asked for.
    func at(_ stage: Stage, of request: ImageRequest) -> Self {
        var error = self
        error.stage = stage
        error.url = request.url.map(Self.withoutQuery)
        return error
    }

    /// The same with what was asked for and where it went wrong, unless it says so itself.
    func about(_ request: ImageRequest, at stage: Stage? = nil) -> Self {
        var error = self
        error.stage = error.stage ?? stage
        error.url = error.url ?? request.url.map(Self.withoutQuery)
        return error
    }

    /// The same with what the origin has answered, unless it says so itself. Nobody's leaving is the origin's doing.
    ///
    /// - Parameters:
    ///   - response: nil where there was none, or a cache had the bytes.
    ///   - data: the first bytes of what came, or all of them.
    ///   - type: what the origin called them when they went to the cache.
    func with(_ response: URLResponse?, _ data: Data = Data(), type: String? = nil) -> Self {
        if code == .cancelled { return self }
        let http = response as? HTTPURLResponse
        var error = self
        error.status = error.status ?? http?.statusCode
        error.contentType = error.contentType ?? http?.mediaType ?? type
        error.reuse = error.reuse ?? http.flatMap { Reuse(headers: $0.lowercasedHeaders) }
        if let encoding = http?.bodyEncoding, [.unsupportedFormat, .decoderNotRegistered].contains(code) {
            error.message +=
                " The answer has Content-Encoding: \(encoding), which is not decoded; have the origin send the "
                + "image as it is."
        }
        if !data.isEmpty, isOfTheBytes { error.excerpt = error.excerpt ?? Excerpt.of(data) }
        return error
    }

    /// Whether it is the bytes that are no good. They are not where there was no time, no memory or nobody who waits.
    var isOfTheBytes: Bool { ![.cancelled, .renderTimedOut, .tooCostly].contains(code) }

    /// Where the making of a rendition went wrong, which is one step from the bytes to the bytes.
    var stageOfRendering: Stage {
        switch code {
        case .outputTooLarge, .renderFailed: .process
        case .encodingFailed: .encode
        default: .decode
        }
    }
}
