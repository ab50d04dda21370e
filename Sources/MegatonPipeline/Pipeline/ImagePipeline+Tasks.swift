public import Foundation
public import FoundationNetworking

extension ImagePipeline {
    // MARK: - Images

    /// Begins to load an image at once.
    public func imageTask(with url: URL) -> ImageTask { imageTask(with: ImageRequest(url: url)) }

    /// Begins to load an image at once.
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
        // A delegate may have thought better of it.
        if task.status.result != nil { return task }
        task.start()
        load(task)
        return task
    }

    /// Loads an image and waits for it. Cancelling the Swift task cancels the load.
    ///
    /// - Returns: nothing but pixels, as of a request.
    public func image(for url: URL) async throws(Error) -> PlatformImage {
        try await image(for: ImageRequest(url: url))
    }

    /// Loads an image and waits for it. Cancelling the Swift task cancels the load.
    ///
    /// - Returns: nothing but pixels, whatever the original has beside them: they are upright, and in sRGB or grey, as its
    ///   profile has been applied and is gone like EXIF and all other metadata. ``Rendition/keepMetadata`` and
    ///   ``Rendition/profile`` keep some of it; `data(for:)` has the bytes as they came.
    public func image(for request: ImageRequest) async throws(Error) -> PlatformImage {
        try await imageTask(with: request).image
    }

    // MARK: - Data

    /// The bytes of what a request's processors make, if a data cache has them, else the original's. Nothing is decoded.
    ///
    /// - Returns: of an original that a cache had, the response is the stored one: with `Age`, and after a revalidation with
    ///   the status and the header fields that the origin has confirmed. It is nil of what processors made, and of what no
    ///   origin has answered.
    public func data(for request: ImageRequest) async throws(Error) -> (data: Data, response: URLResponse?) {
        try await whileOpen(for: request) { [self] () async throws(Error) in
            let request = named(try await revised(request))
            var look: OriginalLook?
            if request.changesOriginal || !request.hasBytes {
                let found = await lookUp(request, steps: false)
                if let cached = found.entries[dataCacheKey(for: request)] { return (cached.data, nil) }
                look = found.original
            }
            let original = try await original(for: request, PipelineMetrics(), nil, look, wantsAnswer: true)
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
        throw Error(.pipelineInvalidated, "\(request) came when the pipeline had been ended.").about(request)
    }

    /// Does what a call is for, until its caller is cancelled or the pipeline is ended.
    ///
    /// - Throws: what the body throws, which is `.cancelled` in both cases; `.pipelineInvalidated` where the pipeline has
    ///   been ended before.
    func whileOpen<Value: Sendable>(
        for request: ImageRequest,
        _ body: @escaping @Sendable () async throws(Error) -> Value
    ) async throws(Error) -> Value {
        try checkIsOpen(for: request)
        // Unstructured, as `invalidate` must be able to end it too. Its caller waits for it below, and cancels it with
        // himself.
        let task = Task { () async -> Result<Value, Error> in
            do throws(Error) { return .success(try await body()) } catch { return .failure(error.about(request)) }
        }
        let number = tasks.addCall { task.cancel() }
        // Ended since it was looked at.
        if number == nil { task.cancel() }
        defer { if let number { tasks.removeCall(number) } }
        return try await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }.get()
    }

    /// Cancels all that is under way: image tasks, calls for bytes and renditions, prefetches; each ends with
    /// `.cancelled`. Whatever is asked for later fails with `.pipelineInvalidated`. Once is enough.
    public func invalidate() {
        for cancel in tasks.close() { cancel() }
        refreshes.stop()
    }
}
