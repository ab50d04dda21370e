import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

/// An invalidated pipeline ends calls other than image tasks too: bytes, renditions, prefetches.
@Suite(.timeLimit(.minutes(2))) struct InvalidationTests {
    private typealias Call = @Sendable (ImagePipeline, ImageRequest) async throws -> Void

    private static let calls: [String: Call] = [
        "data": { _ = try await $0.data(for: $1) },
        "renditions": { _ = try await $0.renditions([Rendition(width: 4)], for: $1) },
        "prefetch": { try await $0.prefetch($1) },
    ]

    @Test(arguments: ["data", "renditions", "prefetch"]) func runningCallsAreCancelled(_ name: String) async throws {
        let call = try #require(Self.calls[name])
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let request = ImageRequest(url: TestPipeline.url)
        // Each is awaited below.
        let waiting = (0..<2).map { _ in Task { await TestPipeline.code { try await call(pipeline, request) } } }
        await loader.requests.wait(for: 1)
        // Both share the load: if the first ended before the second had joined, the second would start another.
        let waits = name == "renditions" ? { pipeline.groups.subscriberCount } : { pipeline.originals.subscriberCount }
        while waits() < 2, !Task.isCancelled { await Task.yield() }
        #expect(pipeline.tasks.callCount == 2)
        pipeline.invalidate()
        for task in waiting { #expect(await task.value == .cancelled) }
        await loader.cancels.wait(for: 1)
        #expect(await TestPipeline.code { try await call(pipeline, request) } == .pipelineInvalidated)
        #expect(loader.requests.count == 1 && pipeline.tasks.callCount == 0)
    }

    /// A call that has ended is no longer tracked, however it ended.
    @Test(arguments: ["data", "renditions", "prefetch"]) func noCallIsLeftBehind(_ name: String) async throws {
        let call = try #require(Self.calls[name])
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let request = ImageRequest(url: TestPipeline.url)
        // Awaited below.
        let cancelled = Task { await TestPipeline.code { try await call(pipeline, request) } }
        await loader.requests.wait(for: 1)
        cancelled.cancel()
        #expect(await cancelled.value == .cancelled)
        await loader.cancels.wait(for: 1)
        loader.release()
        try await call(pipeline, request)
        let code = await TestPipeline.code { try await call(pipeline, ImageRequest(url: nil)) }
        #expect(code == .invalidURL && pipeline.tasks.callCount == 0)
    }

    @Test(arguments: [ImagePrefetcher.Destination.memoryCache, .diskCache])
    func prefetchesAreCancelled(_ destination: ImagePrefetcher.Destination) async {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let outcomes = TestLog<ImagePipeline.Error.Code?>()
        let prefetcher = ImagePrefetcher(
            pipeline: pipeline,
            destination: destination,
            didFinish: { outcome in
                if case .failure(let error) = outcome.result {
                    outcomes.append(error.code)
                } else {
                    outcomes.append(nil)
                }
            }
        )
        prefetcher.startPrefetching(with: [TestPipeline.url])
        await loader.requests.wait(for: 1)
        pipeline.invalidate()
        await outcomes.wait(for: 1)
        #expect(outcomes.values == [.cancelled])
    }
}
