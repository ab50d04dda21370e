import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct PipelinePriorityTests {
    private func task(_ probe: PipelineProbe, _ url: URL, _ priority: ImageRequest.Priority) -> ImageTask {
        var request = probe.request(url)
        request.priority = priority
        return probe.pipeline.imageTask(with: request)
    }

    // A high-priority request that joins a low-priority download raises its priority.
    @Test func joiningRaisesThePriorityOfTheDownload() async throws {
        let paths = try await FetchOrder.paths { probe, origin in
            let queue = probe.pipeline.originals.fetches
            let low = task(probe, origin.url("/a"), .low)
            while queue.pendingCount < 1, !Task.isCancelled { await Task.yield() }
            let normal = task(probe, origin.url("/b"), .normal)
            while queue.pendingCount < 2, !Task.isCancelled { await Task.yield() }
            let high = task(probe, origin.url("/a"), .high)
            return [low, normal, high].map { task in { _ = try await task.response } }
        }
        #expect(paths == ["/first", "/a", "/b"])
    }

    @Test func thePriorityOfDataAndOfPrefetchingCounts() async throws {
        let paths = try await FetchOrder.paths { probe, origin in
            let queue = probe.pipeline.originals.fetches
            let normal = task(probe, origin.url("/a"), .normal)
            while queue.pendingCount < 1, !Task.isCancelled { await Task.yield() }
            var (data, prefetch) = (probe.request(origin.url("/b")), probe.request(origin.url("/c")))
            data.priority = .high
            prefetch.priority = .veryHigh
            // Both are awaited below.
            let dataTask = Task { [data] in _ = try await probe.pipeline.data(for: data) }
            while queue.pendingCount < 2, !Task.isCancelled { await Task.yield() }
            let prefetchTask = Task { [prefetch] in try await probe.pipeline.prefetch(prefetch) }
            while queue.pendingCount < 3, !Task.isCancelled { await Task.yield() }
            return [
                { _ = try await normal.response }, { try await dataTask.value }, { try await prefetchTask.value },
            ]
        }
        #expect(paths == ["/first", "/c", "/b", "/a"])
    }
}
