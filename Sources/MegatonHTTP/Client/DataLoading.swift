public import Foundation
public import FoundationNetworking

/// Loads bytes: Nuke's protocol, with its contract of four points.
///
/// 1. Both closures may be called on any thread, one call at a time.
/// 2. `didReceiveData` is called for each chunk as it arrives, with the response each time.
/// 3. `completion` is called exactly once, after all chunks: nil for success.
/// 4. After `cancel()` neither closure is called.
///
/// A 304 to a conditional request (`If-None-Match`, `If-Modified-Since`) is a success: empty data, with the response. A
/// loader that reports an error instead still works, but its responses are not revalidated.
public protocol DataLoading: Sendable {
    func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable
}

extension DataLoading {
    /// The whole body. Cancelling the task cancels the load.
    ///
    /// - Parameters:
    ///   - limit: bytes, counted while they stream.
    ///   - onProgress: receives the bytes so far and in total (0 if unknown), on the loader's thread.
    /// - Throws: `ImageError`; an error of another type becomes `.dataLoadingFailed`.
    package func data(
        for request: URLRequest,
        limit: Int,
        onProgress: @escaping @Sendable (_ completed: Int64, _ total: Int64) -> Void = { _, _ in }
    ) async throws(ImageError) -> (data: Data, response: URLResponse?) {
        let download = ResumableDownload(request, resuming: nil)
        switch await attempt(download, as: request, limit: limit, observer: DownloadObserver(onProgress: onProgress)) {
        case .done(let data, let response), .enough(let data, let response): return (data, response)
        case .failed(let error, _): throw error
        case .again:
            throw ImageError(.dataLoadingFailed, "The loader asked to restart a load that had resumed nothing.")
        }
    }

    /// One attempt at a download. Cancelling the task cancels the load.
    ///
    /// - Parameters:
    ///   - request: the download's request, or a modified copy of it.
    ///   - limit: bytes of the whole body, counted while they stream.
    package func attempt(
        _ download: ResumableDownload,
        as request: URLRequest,
        limit: Int,
        observer: DownloadObserver
    ) async -> ResumableDownload.Outcome {
        let body = BodyAccumulator(download, limit: limit, observer: observer)
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                body.start(continuation)
                let load = timedLoad(
                    with: request,
                    didReceiveData: body.append,
                    didCollect: observer.onTimings,
                    completion: body.complete
                )
                body.attach(load)
            }
        } onCancel: {
            let place = request.url?.redacted ?? ""
            body.fail(ImageError(.cancelled, "The fetch of \(place) was cancelled."))
        }
    }
}

/// An operation in progress that can be cancelled.
public protocol Cancellable: Sendable {
    /// Cancels the operation. May be called from any thread, and more than once.
    func cancel()
}
