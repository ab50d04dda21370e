internal import Logging

// Pictures of what has come so far, for who looks on while a download is under way. They take the same way as the
// picture itself, but for the data caches. One that cannot be made is none.
extension ImagePipeline {
    /// Decodes what has come so far, unless something is being decoded already.
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

    /// Nil as long as the delegate, or the policy by the bytes, wants nothing shown.
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

    /// A preview goes through the processor too, unless another one is on its way.
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
        // Whatever the decoder or the processor says: it must not be taken for the picture.
        response.container.isPreview = true
        context.send(partial: response.toKeep())
    }

    private func note(_ error: Error, _ request: ImageRequest) {
        if error.code == .cancelled { return }
        configuration.logger.debug("a preview was not made", metadata: ["request": "\(request)", "error": "\(error)"])
    }

    /// Keeps a preview in memory until the picture takes its place, once for all who have been sent the same one.
    func keep(preview response: ImageResponse) {
        let request = response.request
        guard configuration.isStoringPreviewsInMemoryCache, !request.options.contains(.disableMemoryCacheWrites),
            let cache = imageCache(for: request), let keeper = response.keeper, keeper.isFirst()
        else { return }
        let key = imageCacheKey(for: request)
        // Who reloads a picture must not spoil it for others.
        if let kept = cache[key], !kept.isPreview { return }
        cache[key] = response.container
    }
}
