public import Foundation
public import FoundationNetworking

extension ImagePipeline {
    // MARK: - Images

    /// Starts to load an image immediately.
    public func imageTask(with url: URL) -> ImageTask { imageTask(with: ImageRequest(url: url)) }

    /// Starts to load an image immediately.
    public func imageTask(with request: ImageRequest) -> ImageTask {
        let task = tasks.make(request) { [weak self] task, event in
            guard let self else { return }
            if case .finished = event { tasks.remove(task) }
            delegate?.imageTask(task, didReceiveEvent: event, pipeline: self)
        }
        delegate?.imageTaskCreated(task, pipeline: self)
        do throws(Error) {
            try checkIsOpen(for: request)
        } catch {
            task.finish(.failure(error))
            return task
        }
        // The delegate may have cancelled the task.
        if task.status.result != nil { return task }
        task.start()
        load(task)
        return task
    }

    /// Loads an image and waits for it. Cancelling the Swift task cancels the load.
    ///
    /// - Returns: only pixels, as for a request.
    public func image(for url: URL) async throws(Error) -> PlatformImage {
        try await image(for: ImageRequest(url: url))
    }

    /// Loads an image and waits for it. Cancelling the Swift task cancels the load.
    ///
    /// - Returns: only pixels: upright, in sRGB or gray. The color profile has been applied and then removed, as have
    ///   EXIF and all other metadata. ``Rendition/keepMetadata`` and ``Rendition/profile`` keep some of it;
    ///   `data(for:)` returns the original bytes.
    public func image(for request: ImageRequest) async throws(Error) -> PlatformImage {
        try await imageTask(with: request).image
    }

    // MARK: - Data

    /// Bytes of the processed image if a data cache has them, else those of the original. Nothing is decoded.
    ///
    /// - Returns: the bytes and the origin's response. For an original from a cache it is the stored response, with
    ///   `Age` and, after a revalidation, with the status and header fields that the origin confirmed. It is nil for
    ///   processed images, and for bytes that no origin has sent.
    public func data(for request: ImageRequest) async throws(Error) -> (data: Data, response: URLResponse?) {
        try await whileOpen(for: request) { [self] () async throws(Error) in
            let request = named(try await revised(request))
            var lookup: OriginalLookup?
            if request.changesOriginal || !request.hasBytes {
                let found = await lookUp(request, steps: false)
                if let cached = found.entries[dataCacheKey(for: request)] { return (cached.data, nil) }
                lookup = found.original
            }
            let original = try await original(for: request, PipelineMetrics(), nil, lookup, wantsResponse: true)
            await original.isStored()
            return (original.data, original.answer(for: request.url))
        }
    }

    /// The bytes of a URL.
    public func data(for url: URL) async throws(Error) -> (data: Data, response: URLResponse?) {
        try await data(for: ImageRequest(url: url))
    }

    // MARK: - Lifetime

    func checkIsOpen(for request: ImageRequest) throws(Error) {
        if tasks.isOpen { return }
        throw Error(.pipelineInvalidated, "\(request) was made after the pipeline was invalidated.").about(request)
    }

    /// Runs the body of a call until its caller is cancelled or the pipeline is invalidated.
    ///
    /// - Throws: the body's error, which is `.cancelled` in both cases; `.pipelineInvalidated` if the pipeline was
    ///   invalidated before the call.
    func whileOpen<Value: Sendable>(
        for request: ImageRequest,
        _ body: @escaping @Sendable () async throws(Error) -> Value
    ) async throws(Error) -> Value {
        try checkIsOpen(for: request)
        // Unstructured, so that `invalidate` can cancel it too. The caller waits for it below and passes on its own
        // cancellation.
        let task = Task { () async -> Result<Value, Error> in
            do throws(Error) { return .success(try await body()) } catch { return .failure(error.about(request)) }
        }
        let number = tasks.addCall { task.cancel() }
        // The pipeline was invalidated after the check.
        if number == nil { task.cancel() }
        defer { if let number { tasks.removeCall(number) } }
        return try await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }.get()
    }

    /// Cancels all work under way: image tasks, calls for bytes and renditions, prefetches. Each fails with
    /// `.cancelled`. Later requests fail with `.pipelineInvalidated`. Further calls have no effect.
    public func invalidate() {
        for cancel in tasks.close() { cancel() }
        revalidator.stop()
    }
}
