internal import Foundation
internal import FoundationNetworking

extension ImagePipeline {
    /// Decodes in its turn.
    ///
    /// - Parameter known: the decoder, where the download has one already.
    func decode(
        _ decoding: ImageDecodingContext,
        by known: (any ImageDecoding)? = nil,
        _ metrics: TaskRecorder,
        _ context: LoadContext
    ) async throws(Error) -> ImageContainer {
        guard let decoder = known ?? decoder(for: decoding) else {
            throw Error(.decoderNotRegistered, "No decoder wants the bytes of \(decoding.request).", stage: .decode)
        }
        return try await metrics.measure(.decode) { () async throws(Error) in
            try await decode(decoding, by: decoder, turn: RenderTurn(queue: renders, context: context))
        }
    }

    /// Decodes on a render thread, as soon as there is memory for it; at once where the decoder needs neither.
    func decode(
        _ decoding: ImageDecodingContext,
        by decoder: any ImageDecoding,
        turn: RenderTurn? = nil
    ) async throws(Error) -> ImageContainer {
        let (data, request) = (decoding.data, decoding.request)
        do throws(Error) {
            if decoder.isAsynchronous {
                return try await renderer.decode(data, with: decoder, context: "\(request)", turn: turn)
            }
            do {
                return try decoder.decode(data)
            } catch let error as Error {
                throw error
            } catch {
                throw Error(.corruptImage, "\(request): \(error)")
            }
        } catch {
            let response = decoding.urlResponse as? HTTPURLResponse
            throw error.at(.decode, of: request).of(type: response?.mediaType)
        }
    }

    func decoder(for context: ImageDecodingContext) -> (any ImageDecoding)? {
        guard let delegate else { return makeImageDecoder(context) }
        return delegate.imageDecoder(for: context, pipeline: self)
    }
}

extension ImagePipeline.Error {
    /// The same with where it went wrong, and what was asked for.
    func at(_ stage: Stage, of request: ImageRequest) -> Self {
        var error = self
        error.stage = stage
        error.url = request.url.map(Self.withoutQuery)
        return error
    }

    /// The same with what the origin calls the bytes, where they are of no kind that is read.
    func of(type: String?) -> Self {
        guard code == .unsupportedFormat else { return self }
        var error = self
        error.contentType = error.contentType ?? type
        return error
    }

    /// Whether it is the bytes that are no good. They are not where there was no time, no memory or nobody who waits.
    var isOfTheBytes: Bool { ![.cancelled, .renderTimedOut, .tooCostly].contains(code) }
}
