internal import Logging

// Previews of an unfinished download. They take the same path as the image itself, without the data caches. A preview
// that cannot be made is skipped.
extension ImagePipeline {
    /// Decodes a preview of the bytes received so far, unless one is being decoded already.
    func preview(
        of partial: Original,
        _ request: ImageRequest,
        _ previews: PreviewDecoding,
        _ context: LoadContext
    ) {
        guard previews.gate.enter() else { return }
        context.enqueue(on: renders) { [self] in
            var response: ImageResponse?
            do throws(Error) {
                let container = try await renderer.preview(
                    of: partial.data,
                    context: "\(request)",
                    until: previews.gate.cancellation
                ) { [self] in
                    decoder(for: partial, request, previews)
                }
                response = container.map {
                    ImageResponse(container: $0, request: request, urlResponse: partial.response)
                }
            } catch {
                note(error, request)
            }
            previews.gate.leave(response) { show($0, context) }
        }
    }

    /// Decoder for previews; nil as long as the delegate, or the default policy for the bytes, wants none.
    private func decoder(
        for partial: Original,
        _ request: ImageRequest,
        _ previews: PreviewDecoding
    ) -> (any ImageDecoding)? {
        previews.decoder(for: partial.data.count) {
            var context = ImageDecodingContext(
                request: request,
                data: partial.data,
                isCompleted: false,
                urlResponse: partial.response
            )
            let policy = delegate.map { $0.previewPolicy(for: context, pipeline: self) } ?? .default(for: partial.data)
            if policy == .disabled { return nil }
            context.previewPolicy = policy
            return decoder(for: context)
        }
    }

    /// Applies a processor to a preview, unless another preview is being processed.
    func process(
        preview input: ImageResponse,
        _ processor: any ImageProcessing,
        _ request: ImageRequest,
        _ gate: PreviewGate<ImageResponse>,
        _ context: LoadContext
    ) {
        guard gate.enter() else { return }
        context.enqueue(on: renders) { [self] in
            var response: ImageResponse?
            do throws(Error) {
                let container = try await apply(
                    processor,
                    to: input,
                    request,
                    isCompleted: false,
                    until: gate.cancellation
                )
                response = input
                response?.request = request
                response?.container = container
            } catch {
                note(error, request)
            }
            gate.leave(response) { show($0, context) }
        }
    }

    private func show(_ response: ImageResponse, _ context: LoadContext) {
        var response = response
        // Whatever the decoder or processor says: a preview must not be mistaken for the image.
        response.container.isPreview = true
        context.send(partial: response.storedOnce())
    }

    private func note(_ error: Error, _ request: ImageRequest) {
        if error.code == .cancelled { return }
        configuration.logger.debug("a preview was not made", metadata: ["request": "\(request)", "error": "\(error)"])
    }

    /// Stores a preview in memory until the image replaces it, once for all tasks that receive the same one.
    func storeInMemory(preview response: ImageResponse) {
        let request = response.request
        guard configuration.isStoringPreviewsInMemoryCache, !request.options.contains(.disableMemoryCacheWrites),
            let cache = imageCache(for: request), let storeFlag = response.storeFlag, storeFlag.isFirst()
        else { return }
        let key = imageCacheKey(for: request)
        // A reload must not replace the finished image of other requests by a preview.
        if let cached = cache[key], !cached.isPreview { return }
        cache[key] = response.container
    }
}
