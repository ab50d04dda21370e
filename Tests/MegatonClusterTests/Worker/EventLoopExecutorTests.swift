import Logging
import MegatonPipeline
import MegatonTestSupport
import NIOCore
import NIOPosix
import Testing

@testable import MegatonCluster

/// The threads of claims, and of the jobs that they begin.
@Suite(.timeLimit(.minutes(1))) struct EventLoopExecutorTests {
    /// Reports for each source whether it runs on an event loop.
    private struct Runner: JobRunning {
        let ran: AsyncStream<Bool>.Continuation

        func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result {
            ran.yield(Self.isOnLoop)
            await Task.yield()
            ran.yield(Self.isOnLoop)
            return .done([])
        }

        private static var isOnLoop: Bool { MultiThreadedEventLoopGroup.currentEventLoop != nil }
    }

    @Test func tasksAndTheirChildrenRunOnTheLoop() async {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        await withTaskExecutorPreference(EventLoopExecutor(loop)) {
            #expect(loop.inEventLoop)
            await Task.yield()
            #expect(loop.inEventLoop)
            async let child = loop.inEventLoop
            #expect(await child)
            // Not a child.
            #expect(await Task { loop.inEventLoop }.value == false)
        }
    }

    // A render on the loop would stop all connections to the control Redis.
    @Test func noSourceOfAJobOrAPackRunsOnALoop() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let pack = Pack(
                sharing: Job(id: "p", source: "", batch: "b"),
                sources: (1...3).map { .init(id: "p\($0)", source: "http://a.example/\($0)") }
            )
            try await fixture.push(QueueFixture.job("a"), pack.json())
            while case .admitted = try await fixture.admit() {}
            let (stream, continuation) = AsyncStream.makeStream(of: Bool.self)
            let worker = BareWorker(
                Worker.Configuration(control: fixture.server.configuration),
                name: "host:1:a",
                queue: ShardedQueue(fixture.queue),
                leases: ShardedQueue(fixture.queue),
                group: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            ) { _ in Runner(ran: continuation) }
            let signal = ShutdownSignal()
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await worker.run(until: signal) }
                var places: [Bool] = []
                for await place in stream {
                    places.append(place)
                    if places.count == 8 { break }
                }
                #expect(places == Array(repeating: false, count: 8))
                signal.raise(to: .drain)
            }
        }
    }
}
