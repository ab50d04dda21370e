import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster

/// When a worker claims, and when it waits for a token instead, on a real Redis.
@Suite(.timeLimit(.minutes(2))) struct ClaimLoopTests {
    /// Reports each job that starts, and ends it when the test says so.
    private struct Runner: JobRunning {
        let started: AsyncStream<String>.Continuation
        let end = AsyncSignal()

        func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result {
            started.yield(job.id ?? "")
            await end.wait()
            return .done([])
        }
    }

    /// Runs the loop of a worker with one place.
    private func run(
        _ fixture: QueueFixture,
        _ body: (inout AsyncStream<String>.Iterator, AsyncSignal) async throws -> Void
    ) async throws {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let (stream, continuation) = AsyncStream.makeStream(of: String.self)
        let (runner, running) = (Runner(started: continuation), RunningJobs())
        var configuration = Worker.Configuration(control: fixture.server.configuration)
        configuration.concurrency = 1
        let group = MultiThreadedEventLoopGroup.singleton
        let wake = RedisClient(fixture.server.configuration, role: "wake", group: group, logger: logger)
        defer { wake.close() }
        let loop = ClaimLoop(
            configuration,
            queue: fixture.queue,
            wake: wake,
            handler: fixture.handler(runner, running: running),
            running: running,
            logger: logger
        )
        let signal = ShutdownSignal()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await loop.run(until: signal) }
            var jobs = stream.makeAsyncIterator()
            do {
                try await body(&jobs, runner.end)
            } catch {
                signal.raise(to: .abort)
                throw error
            }
            signal.raise(to: .abort)
            try await group.waitForAll()
        }
    }

    /// Fault: each job of a worker with one place caused 2.6 claims that found nothing.
    @Test func theEndOfAJobCausesNoClaimOfAnEmptyQueue() async throws {
        try await QueueFixture.run { (fixture) async throws in
            func admit(_ id: String) async throws -> Int {
                let before = try await fixture.redis.calls("evalsha")
                try await fixture.push(QueueFixture.job(id))
                try await fixture.admit()
                return try await fixture.redis.calls("evalsha") - before
            }
            // Redis knows all scripts afterwards.
            _ = try await admit("first")
            for job in try await fixture.claim() { _ = try await fixture.finish(job) }
            let admission = try await admit("a")
            try await run(fixture) { jobs, end in
                #expect(await jobs.next() == "a")
                // The worker has claimed the job without its token.
                try await fixture.redis.send(["DEL", .string(fixture.keys.wake)])
                let before = try await fixture.redis.calls("evalsha")
                end.signal()
                // The job has been settled when its worker waits for a token. Valkey counts a BLPOP only as it ends.
                func isSettled() async throws -> Bool {
                    let clients = try await fixture.redis.send(["INFO", "clients"]).string ?? ""
                    let isWaiting = InfoReply.number("blocked_clients", in: clients) > 0
                    return try await fixture.count("ZCARD", fixture.keys.lease) == 0 && isWaiting
                }
                while try await !isSettled() { await Task.yield() }
                _ = try await admit("b")
                #expect(await jobs.next() == "b")
                let calls = try await fixture.redis.calls("evalsha") - before
                #expect(calls == admission + 2, "a settlement, and the claim of the next job")
            }
        }
    }

    /// A worker with short jobs has one round trip for each: its claim goes with the settlement of the job before.
    @Test func theNextJobIsClaimedWithTheSettlement() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let names = (0..<20).map { "j\($0)" }
            for name in names { try await fixture.push(QueueFixture.job(name)) }
            try await fixture.admitAll(names.count)
            try await run(fixture) { jobs, end in
                var started: [String?] = [await jobs.next()]
                // Redis has forgotten the scripts: neither of the two calls was executed.
                try await fixture.redis.send(["SCRIPT", "FLUSH"])
                for _ in names.dropFirst() {
                    end.signal()
                    started.append(await jobs.next())
                }
                #expect(started == names)
                #expect(try await fixture.redis.calls("blpop") == 0, "it waits for no token")
                #expect(try await fixture.statistic("done") == names.count - 1)
                end.signal()
                while try await fixture.statistic("done") < names.count { await Task.yield() }
            }
            #expect(try await fixture.count("ZCARD", fixture.keys.lease) == 0)
        }
    }

    /// A job that was claimed with a settlement is released if the worker has to stop.
    @Test func nothingStaysClaimedByAWorkerThatStops() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for number in 0..<3 { try await fixture.push(QueueFixture.job("j\(number)")) }
            try await fixture.admitAll(3)
            try await run(fixture) { jobs, end in
                _ = await jobs.next()
                end.signal()
                #expect(await jobs.next() == "j1")
            }
            #expect(try await fixture.count("ZCARD", fixture.keys.lease) == 0)
            #expect(try await fixture.claim(3).map(\.id) == ["j1", "j2"])
        }
    }

    /// Fault: a token that arrived while the worker claimed was lost, and its job waited for an idle interval.
    @Test func theTokenOfAFullWorkerIsPassedOn() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admit()
            try await run(fixture) { jobs, end in
                #expect(await jobs.next() == "a")
                try await fixture.push(QueueFixture.job("b"))
                try await fixture.admit()
                end.signal()
                #expect(await jobs.next() == "b")
            }
        }
    }
}
