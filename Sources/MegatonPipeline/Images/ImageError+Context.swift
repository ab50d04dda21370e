internal import Foundation
internal import FoundationNetworking

// Context that is added to an error on its way to the caller.
extension ImageError {
    /// The same error with the stage that failed and the URL of the request.
    func at(_ stage: Stage, of request: ImageRequest) -> Self {
        var error = self
        error.stage = stage
        error.url = request.url.map(Self.withoutQuery)
        return error
    }

    /// The same error with the URL of the request and the stage that failed, unless it has them already.
    func about(_ request: ImageRequest, at stage: Stage? = nil) -> Self {
        var error = self
        error.stage = error.stage ?? stage
        error.url = error.url ?? request.url.map(Self.withoutQuery)
        return error
    }

    /// Stage at which a rendition failed, derived from the code, as decoding through encoding is one step.
    var stageOfRendering: Stage {
        switch code {
        case .outputTooLarge, .renderFailed: .process
        case .encodingFailed: .encode
        default: .decode
        }
    }
}
