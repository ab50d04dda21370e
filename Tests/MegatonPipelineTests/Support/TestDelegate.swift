import Foundation
import FoundationNetworking

@testable import MegatonHTTP
@testable import MegatonPipeline

/// A delegate that records its calls, and runs actions set by a test.
final class TestDelegate: ImagePipeline.Delegate {
    struct Actions: Sendable {
        var created: @Sendable (ImageTask) -> Void = { _ in }
        var willLoad: @Sendable (URLRequest, ImageRequest) async throws -> URLRequest = { request, _ in request }
        var loader: @Sendable (ImageRequest) -> (any DataLoading)? = { _ in nil }
        var takesBytes = true
        var previewPolicy: @Sendable (ImageDecodingContext) -> ImagePipeline.PreviewPolicy = { .default(for: $0.data) }
        var keepsInMemory = true
        var cacheKey: String?
        /// `isEncoded`: whether the bytes were encoded here.
        var willCache: @Sendable (_ data: Data, _ isEncoded: Bool) -> Data? = { data, _ in data }
    }

    /// Events of all tasks, with the number of the task.
    let events = TestLog<String>()
    let created = TestLog<ImageTask>()
    /// Requests that were about to be sent.
    let loads = TestLog<URLRequest>()
    private let actions: Actions

    init(_ change: (inout Actions) -> Void = { _ in }) {
        var actions = Actions()
        change(&actions)
        self.actions = actions
    }

    func imageDecoder(for context: ImageDecodingContext, pipeline: ImagePipeline) -> (any ImageDecoding)? {
        actions.takesBytes ? pipeline.makeImageDecoder(context) : nil
    }

    func previewPolicy(
        for context: ImageDecodingContext,
        pipeline: ImagePipeline
    ) -> ImagePipeline.PreviewPolicy {
        actions.previewPolicy(context)
    }

    func dataLoader(for request: ImageRequest, pipeline: ImagePipeline) -> any DataLoading {
        actions.loader(request) ?? pipeline.configuration.dataLoader
    }

    func imageCache(for request: ImageRequest, pipeline: ImagePipeline) -> (any ImageCaching)? {
        actions.keepsInMemory ? pipeline.configuration.imageCache : nil
    }

    func willLoadData(
        for request: ImageRequest,
        urlRequest: URLRequest,
        pipeline: ImagePipeline
    ) async throws -> URLRequest {
        loads.append(urlRequest)
        return try await actions.willLoad(urlRequest, request)
    }

    func cacheKey(for request: ImageRequest, pipeline: ImagePipeline) -> String? { actions.cacheKey }

    func willCache(
        data: Data,
        image: ImageContainer?,
        for request: ImageRequest,
        pipeline: ImagePipeline
    ) async -> Data? {
        actions.willCache(data, image != nil)
    }

    func imageTaskCreated(_ task: ImageTask, pipeline: ImagePipeline) {
        events.append("\(task.id) created")
        created.append(task)
        actions.created(task)
    }

    func imageTask(_ task: ImageTask, didReceiveEvent event: ImageTask.Event, pipeline: ImagePipeline) {
        events.append("\(task.id) \(event.text)")
    }
}

extension ImageTask.Event {
    /// A text for comparisons.
    var text: String {
        switch self {
        case .started: "started"
        case .progress(let progress): "\(progress.completed)/\(progress.total)"
        case .preview: "preview"
        case .finished(.success): "finished"
        case .finished(.failure(let error)): error.code.rawValue
        }
    }
}
