import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// Renditions that workers make for requests that wait.
@Suite(.timeLimit(.minutes(2))) struct RenditionJobsTests {
    private static func job(
        _ path: String = "a.jpg",
        width: Int = 64,
        replacing version: String? = nil
    ) throws -> RenditionJob {
        let url = try #require(URL(string: "https://example.org/\(path)"))
        return RenditionJob(Rendition(width: width), of: url, replacing: version)
    }

    /// Runs the jobs of several processes while the body runs.
    private func run(
        processes: Int = 1,
        limit: Duration = .seconds(60),
        logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        _ fixture: QueueFixture,
        _ body: ([RenditionJobs]) async throws -> Void
    ) async throws {
        let jobs = (0..<processes).map { _ in RenditionJobs(fixture.queue, limit: limit, logger: logger) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for process in jobs { group.addTask { await process.run() } }
            defer { group.cancelAll() }
            try await body(jobs)
        }
    }

    private static func failure(_ jobs: RenditionJobs, _ job: RenditionJob) async -> RenditionError? {
        do throws(RenditionError) {
            _ = try await jobs.outcome(of: job)
            return nil
        } catch {
            return error
        }
    }

    private static func code(_ error: RenditionError?) -> ImagePipeline.Error.Code? {
        if case .failed(let error)? = error { error.code } else { nil }
    }

    private func signOn(_ fixture: QueueFixture) async throws {
        let info = WorkerInfo(concurrency: 1).json
        _ = try await fixture.queue.renew([], worker: "w1", lease: .seconds(60), info: info)
    }

    private func waitForPush(_ fixture: QueueFixture) async throws {
        while try await fixture.count("LLEN", fixture.keys.jobs(.high)) == 0 {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    /// Admits the jobs that were pushed, and ends the only one that comes of them.
    private func endJob(_ fixture: QueueFixture, _ failure: JobOutcome.Failure? = nil) async throws {
        try await waitForPush(fixture)
        while case .admitted = try await fixture.admit() {}
        try await endAdmittedJob(fixture, failure)
    }

    private func endAdmittedJob(_ fixture: QueueFixture, _ failure: JobOutcome.Failure? = nil) async throws {
        let claimed = try await fixture.claim(9)
        let active = try #require(claimed.first)
        #expect(claimed.count == 1)
        let parsed = try Job(json: active.json, wasValidated: true)
        let outcome = JobOutcome(
            id: active.id,
            source: parsed.source,
            status: failure == nil ? .done : .failed,
            error: failure
        )
        let text = String(decoding: active.json, as: UTF8.self)
        let dead = failure.map { DeadLetter.Content(code: $0.code, message: $0.message, job: text) }
        let end = JobCompletion(job: active, outcome: outcome, dead: dead, of: parsed)
        #expect(try await fixture.queue.settle([end], worker: "w1") == [.ok])
    }

    // MARK: - Jobs

    @Test func allProcessesPushTheSameJob() throws {
        let one = try Self.job()
        let other = try Self.job()
        #expect(one.id == other.id && one.json == other.json)
        let ids = [
            one.id, try Self.job("b.jpg").id, try Self.job(width: 65).id, try Self.job(replacing: "1.5").id,
            try Self.job(replacing: "2.5").id,
        ]
        #expect(Set(ids).count == ids.count)
        let job = try Job(json: one.json)
        #expect(job.priority == .high && job.attempts == 1 && job.batch == nil && job.reply == nil)
        #expect(job.id == one.id && job.idempotencyKey == one.id)
        #expect(job.renditions?.map(\.width) == [64])
        for (text, isPossible) in [
            ("HTTPS://example.org/a", true), ("s3://bucket/a", true), ("file:///a", false), ("data:,a", false),
        ] {
            let url = try #require(URL(string: text))
            #expect(RenditionJob.isPossible(for: url) == isPossible, "\(text)")
        }
    }

    @Test func anEndIsReadFromWhatTheQueueRemembers() {
        func outcome(_ entry: String) -> JobQueue.RememberedOutcome { .init(ByteBuffer(string: entry)) }
        #expect(outcome("a\n") == .open)
        #expect(outcome("a\n-") == .ended(nil))
        #expect(outcome("a\n{\"b\":\"\n\"}") == .ended(Data("{\"b\":\"\n\"}".utf8)))
    }

    // MARK: - Requests

    @Test func manyRequestsInTwoProcessesAreOneJob() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await signOn(fixture)
            let job = try Self.job()
            try await run(processes: 2, fixture) { (processes) async throws in
                let found = try await withThrowingTaskGroup(of: JobOutcome?.self) { group in
                    for jobs in processes {
                        for _ in 0..<20 { group.addTask { try await jobs.outcome(of: job) } }
                    }
                    try await endJob(fixture)
                    return try await group.reduce(into: [JobOutcome?]()) { $0.append($1) }
                }
                #expect(found.count == 40 && found.allSatisfy { $0?.status == .done && $0?.id == job.id })
            }
            #expect(try await fixture.statistic("done") == 1)
        }
    }

    @Test func aFailureIsThatOfTheJobAndIsRemembered() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await signOn(fixture)
            try await run(fixture) { (processes) async throws in
                for (path, code, expected) in [
                    ("a.jpg", "not_found", .notFound), ("b.jpg", "poison", .renderFailed),
                ] as [(String, String, ImagePipeline.Error.Code)] {
                    let job = try Self.job(path)
                    async let error = Self.failure(processes[0], job)
                    try await endJob(fixture, .init(code: code, message: "It is not there.", retryable: false))
                    let first = await error
                    #expect(Self.code(first) == expected)
                    let second = await Self.failure(processes[0], job)
                    #expect(Self.code(second) == expected)
                    #expect(try await fixture.count("LLEN", fixture.keys.jobs(.high)) == 0, "no second job")
                }
            }
        }
    }

    @Test func noJobIsPushedIfNoneWouldBeDone() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let job = try Self.job()
            try await run(fixture) { (processes) async throws in
                func reason() async -> String {
                    if case .unavailable(let text)? = await Self.failure(processes[0], job) { text } else { "" }
                }
                let empty = await reason()
                #expect(empty.contains("No worker"))
                try await signOn(fixture)
                try await fixture.queue.set(.paused, to: true)
                let paused = await reason()
                #expect(paused.contains("is paused"))
                try await fixture.queue.set(.paused, to: false)
                try await fixture.queue.set(.drain, to: true)
                let draining = await reason()
                #expect(draining.contains("no new jobs"))
                #expect(try await fixture.count("LLEN", fixture.keys.jobs(.high)) == 0)
                try await fixture.queue.set(.drain, to: false)
                async let outcome = processes[0].outcome(of: job)
                try await endJob(fixture)
                let found = try await outcome
                #expect(found?.status == .done)
            }
        }
    }

    /// Fault: requests for an image whose job a paused queue has waited for 20 s each.
    @Test func requestsDoNotWaitForAPausedQueue() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await signOn(fixture)
            let job = try Self.job()
            try await run(processes: 2, fixture) { (processes) async throws in
                async let outcome = processes[0].outcome(of: job)
                try await waitForPush(fixture)
                while case .admitted = try await fixture.admit() {}
                try await fixture.queue.set(.paused, to: true)
                let refused = await Self.failure(processes[1], job)
                guard case .unavailable(let text)? = refused, text.contains("is paused") else {
                    Issue.record("\(String(describing: refused))")
                    return
                }
                try await fixture.queue.set(.paused, to: false)
                try await endAdmittedJob(fixture)
                let found = try await outcome
                #expect(found?.status == .done, "a request of before waits on")
            }
        }
    }

    /// Fault: after the last worker was killed, requests waited for 20 s, as it stays signed on for a minute.
    @Test func requestsDoNotWaitForWorkersThatDied() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await signOn(fixture)
            let job = try Self.job()
            try await run(fixture) { (processes) async throws in
                async let waiting = Self.failure(processes[0], job)
                try await waitForPush(fixture)
                // A worker sends a heartbeat each 5 s.
                let beat = Int(try await fixture.queue.milliseconds()) - 16_000
                try await fixture.redis.send(["ZADD", .string(fixture.keys.workers), .int(beat), "w1"])
                let other = try Self.job("b.jpg")
                for error in [await waiting, await Self.failure(processes[0], job)] {
                    guard case .unavailable(let text)? = error, text.contains("heartbeat") else {
                        Issue.record("\(String(describing: error))")
                        return
                    }
                }
                guard case .unavailable? = await Self.failure(processes[0], other) else {
                    Issue.record("a job was pushed that no worker does")
                    return
                }
                #expect(try await fixture.count("LLEN", fixture.keys.jobs(.high)) == 1, "no further job is pushed")
                // The next heartbeat ends this.
                try await signOn(fixture)
                async let outcome = processes[0].outcome(of: job)
                try await endJob(fixture)
                let found = try await outcome
                #expect(found?.status == .done)
            }
        }
    }

    /// Fault: a queue that refuses a command, for want of a permission for example, left no line above `debug`.
    @Test func aQueueThatCannotBeAskedIsLoggedOnce() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let lines = LogLines()
            let workers = RedisArgument.string(fixture.keys.workers)
            _ = try await fixture.redis.send(["SET", workers, "damaged"])
            try await run(logger: lines.logger(), fixture) { (processes) async throws in
                for path in ["a.jpg", "b.jpg"] {
                    let job = try Self.job(path)
                    guard case .unavailable? = await Self.failure(processes[0], job) else {
                        Issue.record("\(path) was not refused")
                        return
                    }
                }
                #expect(lines.warnings.count == 1, "\(lines.all)")
                _ = try await fixture.redis.send(["DEL", workers])
                try await signOn(fixture)
                let job = try Self.job()
                async let outcome = processes[0].outcome(of: job)
                try await endJob(fixture)
                let found = try await outcome
                #expect(found?.status == .done)
            }
        }
    }

    @Test func aRequestWaitsForALimitedTime() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await signOn(fixture)
            let job = try Self.job()
            try await run(limit: .milliseconds(100), fixture) { (processes) async throws in
                let error = await Self.failure(processes[0], job)
                guard case .overdue? = error else {
                    Issue.record("\(String(describing: error))")
                    return
                }
                #expect(try await fixture.count("LLEN", fixture.keys.jobs(.high)) == 1)
            }
        }
    }

    @Test func aClientThatLeavesDoesNotTakeItsJobWithIt() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await signOn(fixture)
            let job = try Self.job()
            try await run(fixture) { (processes) async throws in
                let client = Task { await Self.failure(processes[0], job) }
                client.cancel()
                let error = await client.value
                #expect(Self.code(error) == .cancelled)
                try await endJob(fixture)
                #expect(try await processes[0].outcome(of: job)?.status == .done)
            }
        }
    }

    @Test func aJobCanBeAskedForWithoutAWait() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await signOn(fixture)
            let job = try Self.job(replacing: "1.5")
            try await run(fixture) { (processes) async throws in
                processes[0].request(job)
                try await endJob(fixture)
                #expect(try await processes[0].outcome(of: job)?.status == .done)
            }
        }
    }

    @Test func requestsEndWithTheProcess() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await signOn(fixture)
            let job = try Self.job()
            var last: RenditionJobs?
            try await run(fixture) { last = $0.first }
            let ended = try #require(last)
            guard case .unavailable? = await Self.failure(ended, job) else {
                Issue.record("a request waits for a process that has ended")
                return
            }
        }
    }
}
