import Foundation
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

/// The levels of a pipeline in miniature: a fetch, a decode, a load with processors, and the caller's handle.
@Suite(.timeLimit(.minutes(2))) struct TaskGraphExampleTests {
    private typealias Failure = ImagePipeline.Error

    // Equal and different requests share their common work, which has the highest priority and sends all events.
    @Test func progressGoesUpAndPriorityGoesDown() async throws {
        let pipeline = Pipeline()
        pipeline.fetchQueue.isSuspended = true
        let small = Handle(pipeline, "a.jpg", ["blur", "small"], .low)
        let blurred = Handle(pipeline, "a.jpg", ["blur"], .low)
        let other = Handle(pipeline, "b.jpg", [], .normal)
        small.setPriority(.high)
        await pipeline.fetchesAreQueued(2)
        pipeline.fetchQueue.isSuspended = false
        #expect(try await small.image.value.get() == "a.jpg bytes, decoded, blur, small")
        #expect(try await blurred.image.value.get() == "a.jpg bytes, decoded, blur")
        #expect(try await other.image.value.get() == "b.jpg bytes, decoded")
        #expect(small.progress.value == ["3/9", "9/9"], "of the fetch, three levels below")
        #expect(pipeline.log.value.first == "fetch a.jpg", "its fetch was raised with it")
        #expect(pipeline.log.value.filter { $0.contains("a.jpg") }.sorted() == ["decode a.jpg", "fetch a.jpg"])
        #expect(pipeline.log.value.filter { $0 == "blur" }.count == 1)
    }

    private final class Pipeline: Sendable {
        struct LoadKey: Hashable {
            let url: String
            let processors: [String]
        }

        let fetchQueue = TaskQueue(maxConcurrentOperationCount: 1)
        let decodeQueue = TaskQueue(maxConcurrentOperationCount: 2)
        let processQueue = TaskQueue(maxConcurrentOperationCount: 2)
        let datas = WorkPool<String, String>()
        let originals = WorkPool<String, String>()
        let loads = WorkPool<LoadKey, String>()
        let log = TaskTestBox<[String]>([])

        /// The bottom level: a loader with callbacks, in a queue.
        func fetch(_ url: String) -> WorkJob<String> {
            .running { [self] context async throws(Failure) in
                try await context.perform(on: fetchQueue) { () async throws(Failure) in
                    self.log.withLock { $0.append("fetch \(url)") }
                    context.send(completed: 3, total: 9)
                    context.send(completed: 9, total: 9)
                    return "\(url) bytes"
                }
            }
        }

        /// The middle level: waits for the bottom one, then for a slot to decode.
        func original(_ url: String) -> WorkJob<String> {
            .running { [self] context async throws(Failure) in
                let data = try await context.value(of: datas, key: url, job: fetch(url))
                return try await context.perform(on: decodeQueue) {
                    self.log.withLock { $0.append("decode \(url)") }
                    return data + ", decoded"
                }
            }
        }

        /// The top level: applies the last processor to the result of the ones before it.
        func load(_ key: LoadKey) -> WorkJob<String> {
            .running { [self] context async throws(Failure) in
                guard let last = key.processors.last else {
                    return try await context.value(of: originals, key: key.url, job: original(key.url))
                }
                let before = LoadKey(url: key.url, processors: key.processors.dropLast())
                let image = try await context.value(of: loads, key: before, job: load(before))
                return try await context.perform(on: processQueue) {
                    self.log.withLock { $0.append(last) }
                    return "\(image), \(last)"
                }
            }
        }

        func fetchesAreQueued(_ count: Int) async {
            while fetchQueue.pendingCount < count, !Task.isCancelled { await Task.yield() }
        }
    }

    private final class Handle: Sendable {
        let image = Promise<Result<String, Failure>>()
        let progress = TaskTestBox<[String]>([])
        private let subscription: WorkSubscription?

        init(_ pipeline: Pipeline, _ url: String, _ processors: [String], _ priority: WorkPriority) {
            let key = Pipeline.LoadKey(url: url, processors: processors)
            subscription = pipeline.loads.subscribe(to: key, priority: priority, job: pipeline.load(key)) {
                [image, progress] event, _ in
                if case .progress(let completed, let total) = event {
                    progress.withLock { $0.append("\(completed)/\(total)") }
                }
                if let result = event.result { image.resolve(result) }
            }
        }

        func setPriority(_ priority: WorkPriority) { subscription?.setPriority(priority) }
        func cancel() { subscription?.cancel() }
    }
}
