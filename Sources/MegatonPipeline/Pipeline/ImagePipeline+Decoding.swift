internal import Foundation
internal import FoundationNetworking

extension ImagePipeline {
    /// Decodes in a render slot.
    ///
    /// - Parameter known: decoder of the download's previews, if there is one.
    func decode(
        _ decoding: ImageDecodingContext,
        by known: (any ImageDecoding)? = nil,
        _ metrics: TaskRecorder,
        _ context: LoadContext
    ) async throws(Error) -> ImageContainer {
        guard let decoder = known ?? decoder(for: decoding) else {
            throw Error(
                .decoderNotRegistered,
                "No registered decoder accepts the bytes of \(decoding.request).",
                stage: .decode
            )
            .with(decoding.urlResponse, decoding.data)
        }
        return try await metrics.measure(.decode) { () async throws(Error) in
            try await decode(decoding, by: decoder, slot: RenderSlot(queue: renders, context: context))
        }
    }

    /// Decodes on a render thread as soon as there is memory for it; immediately if the decoder needs no thread.
    func decode(
        _ decoding: ImageDecodingContext,
        by decoder: any ImageDecoding,
        slot: RenderSlot
    ) async throws(Error) -> ImageContainer {
        let (data, request) = (decoding.data, decoding.request)
        do throws(Error) {
            if decoder.isAsynchronous {
                return try await renderer.decode(data, with: decoder, context: "\(request)", slot: slot)
            }
            do {
                return try decoder.decode(data)
            } catch let error as Error {
                throw error
            } catch {
                throw Error(.corruptImage, "\(request): \(error)", underlying: error)
            }
        } catch {
            throw error.at(.decode, of: request).with(decoding.urlResponse, data)
        }
    }

    func decoder(for context: ImageDecodingContext) -> (any ImageDecoding)? {
        guard let delegate else { return makeImageDecoder(context) }
        return delegate.imageDecoder(for: context, pipeline: self)
    }
}
