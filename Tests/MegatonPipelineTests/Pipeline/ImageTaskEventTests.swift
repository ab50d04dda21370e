import Foundation
import FoundationNetworking
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct ImageTaskEventTests {
    private let url = TestPipeline.url
    private let total = TestPipeline.png.count

    private func texts(_ events: AsyncStream<ImageTask.Event>) async -> [String] {
        await events.reduce(into: []) { $0.append($1.text) }
    }

    // Created, started, progress, finished; for the delegate and for each stream.
    @Test func eventsComeInTheirOrder() async throws {
        let loader = HeldLoader()
        let delegate = TestDelegate()
        let pipeline = TestPipeline.make(loader, delegate: delegate)
        let task = pipeline.imageTask(with: url)
        let streams = (task.events, task.events)
        await loader.requests.wait(for: 1)
        let progress = task.progress
        loader.send(TestPipeline.png.prefix(100))
        loader.send(TestPipeline.png.dropFirst(100))
        loader.finish(0)
        _ = try await task.response
        let news = ["100/\(total)", "\(total)/\(total)", "finished"]
        #expect(await texts(streams.0) == news)
        #expect(await texts(streams.1) == news)
        #expect(delegate.events.values == ["1 created", "1 started"] + news.map { "1 \($0)" })
        #expect(await progress.reduce(into: []) { $0.append($1.completed) } == [100, Int64(total)])
        #expect(task.currentProgress.fraction == 1)
    }

    // As in Nuke 14 (#916), a late subscriber receives the latest progress and the result.
    @Test func aLateSubscriberGetsTheLatestEvents() async throws {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let task = pipeline.imageTask(with: url)
        await loader.requests.wait(for: 1)
        loader.send(TestPipeline.png.prefix(100))
        var late = task.events.makeAsyncIterator()
        #expect(await late.next()?.text == "100/\(total)")
        loader.send(TestPipeline.png.dropFirst(100))
        loader.finish(0)
        _ = try await task.response
        #expect(await texts(task.events) == ["\(total)/\(total)", "finished"])
        #expect(await texts(task.events) == ["\(total)/\(total)", "finished"])
    }

    // Also if the task has failed.
    @Test func aLateSubscriberGetsTheFailure() async {
        let pipeline = TestPipeline.make(HeldLoader())
        let task = pipeline.imageTask(with: url)
        task.cancel()
        #expect(await texts(task.events) == ["cancelled"])
        #expect(await task.previews.reduce(into: 0) { count, _ in count += 1 } == 0)
    }

    // The fraction of a progress.
    @Test func aFractionIsBetweenNoneAndAll() {
        #expect(ImageTask.Progress(completed: 5, total: 10).fraction == 0.5)
        #expect(ImageTask.Progress(completed: 5, total: 0).fraction == 0)
        #expect(ImageTask.Progress(completed: 0, total: 10).fraction == 0)
        #expect(ImageTask.Progress(completed: 15, total: 10).fraction == 1)
    }

    // The streams of progress and of previews deliver their own events only, and end with the task.
    @Test func streamsHaveTheirPart() async throws {
        let task = ImageTask(id: 1, request: ImageRequest(url: url))
        let response = ImageResponse(container: try TestPipeline.container(), request: task.request)
        let (previews, progress, events) = (task.previews, task.progress, task.events)
        task.start()
        task.send(ImageTask.Progress(completed: 1, total: 2))
        task.send(preview: response)
        task.send(preview: response)
        task.finish(.success(response))
        task.send(ImageTask.Progress(completed: 2, total: 2))
        task.send(preview: response)
        task.start()
        #expect(await previews.reduce(into: 0) { count, _ in count += 1 } == 2)
        #expect(await progress.reduce(into: []) { $0.append($1.completed) } == [1])
        #expect(await texts(events) == ["1/2", "preview", "preview", "finished"])
    }

    // An event that an observer causes while it handles another is delivered after that one.
    @Test func anEventCausedByAnObserverFollows() async {
        let log = TestLog<String>()
        let task = ImageTask(id: 1, request: ImageRequest(url: url)) { task, event in
            if case .progress = event { task.cancel() }
            log.append(event.text)
        }
        task.start()
        task.send(ImageTask.Progress(completed: 1, total: 2))
        #expect(log.values == ["started", "1/2", "cancelled"])
        #expect(await TestPipeline.code { try await task.response } == .cancelled)
    }

    // With events from many threads the end is still delivered last, and once.
    @Test func theEndIsDeliveredLast() async {
        for _ in 0..<50 {
            let log = TestLog<String>()
            let task = ImageTask(id: 1, request: ImageRequest(url: url)) { _, event in log.append(event.text) }
            task.start()
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<8 {
                    group.addTask { task.send(ImageTask.Progress(completed: Int64(number), total: 8)) }
                }
                for _ in 0..<2 { group.addTask { task.cancel() } }
            }
            #expect(await TestPipeline.code { try await task.response } == .cancelled)
            #expect(log.values.first == "started")
            #expect(log.values.last == "cancelled")
            #expect(log.values.count { $0 == "cancelled" } == 1)
        }
    }

    // MARK: - Priorities

    // A raised priority reaches fetches that wait for a slot.
    @Test func aRaisedPriorityReachesTheQueue() async throws {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader) { $0.fetchConcurrency = 1 }
        let first = pipeline.imageTask(with: TestPipeline.url("first"))
        await loader.requests.wait(for: 1)
        var waiting: [ImageTask] = []
        for (name, priority) in [("low", ImageRequest.Priority.low), ("normal", .normal), ("raised", .veryLow)] {
            let processors = [TestProcessor(identifier: "same")]
            let request = ImageRequest(url: TestPipeline.url(name), processors: processors, priority: priority)
            waiting.append(pipeline.imageTask(with: request))
            while pipeline.originals.fetches.pendingCount < waiting.count, !Task.isCancelled { await Task.yield() }
        }
        waiting[2].priority = .veryHigh
        #expect(waiting[2].status.priority == .veryHigh)
        loader.release()
        for task in waiting + [first] { _ = try await task.image }
        #expect(loader.paths == ["first", "raised", "normal", "low"])
    }

    // A fetch has the highest priority of all requests that share it.
    @Test func workHasTheHighestPriorityOfItsRequests() async throws {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader) { $0.fetchConcurrency = 1 }
        _ = pipeline.imageTask(with: TestPipeline.url("first"))
        await loader.requests.wait(for: 1)
        let shared = TestPipeline.url("shared")
        let one = pipeline.imageTask(with: ImageRequest(url: shared, priority: .low))
        while pipeline.originals.fetches.pendingCount < 1, !Task.isCancelled { await Task.yield() }
        let between = pipeline.imageTask(with: ImageRequest(url: TestPipeline.url("between")))
        while pipeline.originals.fetches.pendingCount < 2, !Task.isCancelled { await Task.yield() }
        let other = pipeline.imageTask(with: ImageRequest(url: shared, priority: .high))
        loader.release()
        for task in [one, between, other] { _ = try await task.image }
        #expect(loader.paths == ["first", "shared", "between"])
    }

    // MARK: - Metrics

    // #960 of Nuke 14: metrics of a task.
    @Test func metricsHaveTheCostOfATask() async throws {
        let loader = HeldLoader(isHeld: false)
        let pipeline = TestPipeline.make(loader) { $0.imageCache = ImageCache() }
        let request = ImageRequest(url: url, processors: [TestProcessor(identifier: "same")])
        let task = pipeline.imageTask(with: request)
        _ = try await task.response
        let metrics = task.metrics
        #expect(metrics.originFetches == 1)
        #expect(metrics.bytes == total)
        #expect(!metrics.isCoalesced)
        let parts = [metrics.load, metrics.decode, metrics.process].compactMap { $0 }
        #expect(parts.count == 3)
        #expect(metrics.total.map { $0 >= parts.reduce(.zero, +) } == true)
        let hit = pipeline.imageTask(with: request)
        _ = try await hit.response
        #expect(hit.metrics.total != nil)
        #expect(hit.metrics.load == nil)
        #expect(hit.metrics.originFetches == 0)
    }

    @Test func metricsShowWhichTaskDidTheWork() async throws {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let (one, other) = (pipeline.imageTask(with: url), pipeline.imageTask(with: url))
        let cancelled = pipeline.imageTask(with: url)
        await loader.requests.wait(for: 1)
        #expect(one.metrics.total == nil)
        cancelled.cancel()
        loader.release()
        _ = try await (one.response, other.response)
        #expect(!one.metrics.isCoalesced)
        #expect(one.metrics.bytes == total)
        #expect(other.metrics.isCoalesced)
        #expect(other.metrics.bytes == 0)
        #expect(cancelled.metrics.total != nil)
    }
}
