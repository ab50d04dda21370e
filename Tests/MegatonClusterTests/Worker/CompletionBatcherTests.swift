import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(2))) struct CompletionBatcherTests {
    private func completion(_ job: ActiveJob, source: String? = nil) -> JobCompletion {
        JobCompletion(
            job: job,
            outcome: JobOutcome(id: job.id, source: source ?? job.id, status: .done),
            counters: ["renders": 1]
        )
    }

    /// A queue that can also be reached through a proxy, with claimed jobs of a batch.
    private func withJobs(
        _ count: Int,
        _ body: (QueueFixture, FaultProxy, JobQueue, [ActiveJob]) async throws -> Void
    ) async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await FaultProxy.run(to: .unix(path: fixture.server.socket)) { (proxy) async throws in
                // Commands held in a black hole must not time out.
                let queue = JobQueue(try proxy.client(commandTimeout: .seconds(600)), keys: fixture.keys)
                defer { queue.close() }
                try await fixture.submit((0..<count).map { QueueFixture.job("j\($0)") }, to: "b")
                while case .admitted = try await fixture.admit() {}
                let jobs = try await fixture.claim(count)
                try #require(jobs.count == count)
                try await body(fixture, proxy, queue, jobs)
            }
        }
    }

    /// Completions that arrive during a call go with the next one.
    @Test func completionsDuringACallGoWithTheNext() async throws {
        try await withJobs(50) { (fixture, proxy, queue, jobs) async throws in
            let batcher = CompletionBatcher(queue, worker: "w1", batchingWindow: .zero)
            #expect(try await batcher.report(completion(jobs[0])) == .ok, "Redis knows the script from now on")
            let before = try await fixture.redis.calls("evalsha")
            proxy.blackHole(true)
            let results = try await withThrowingTaskGroup(of: SettleResult.self) { group in
                group.addTask { try await batcher.report(completion(jobs[1])) }
                while !batcher.isCalling, !Task.isCancelled { await Task.yield() }
                for job in jobs.dropFirst(2) { group.addTask { try await batcher.report(completion(job)) } }
                while batcher.waitingCount < jobs.count - 2, !Task.isCancelled { await Task.yield() }
                proxy.blackHole(false)
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results == Array(repeating: .ok, count: 49))
            #expect(try await fixture.redis.calls("evalsha") - before == 2)
            let batch = try await fixture.batch("b")
            #expect(batch["done"] == 50 && batch["renders"] == 50 && batch.isFinished)
        }
    }

    /// Fault: the size was estimated from the job's, so that a call with long messages exceeded its limit many times
    /// over.
    @Test func aCallTakesNoMoreThanItsBytes() async throws {
        try await withJobs(9) { (fixture, proxy, queue, jobs) async throws in
            let batcher = CompletionBatcher(queue, worker: "w1", batchingWindow: .zero)
            #expect(try await batcher.report(completion(jobs[0])) == .ok)
            let before = try await fixture.redis.calls("evalsha")
            proxy.blackHole(true)
            try await withThrowingTaskGroup(of: SettleResult.self) { group in
                for job in jobs.dropFirst() {
                    let source = String(repeating: "a", count: CompletionBatcher.limit / 2 - 2048)
                    let long = completion(job, source: source)
                    group.addTask { try await batcher.report(long) }
                    // The first goes alone, and all others wait for it.
                    while !batcher.isCalling, !Task.isCancelled { await Task.yield() }
                }
                while batcher.waitingCount < jobs.count - 2, !Task.isCancelled { await Task.yield() }
                proxy.blackHole(false)
                for try await result in group { #expect(result == .ok) }
            }
            // Two fit into one call.
            #expect(try await fixture.redis.calls("evalsha") - before >= 4)
            #expect(try await fixture.batch("b")["done"] == 9)
        }
    }

    @Test func eachCallerReceivesItsOwnResult() async throws {
        try await withJobs(4) { (fixture, proxy, queue, jobs) async throws in
            let batcher = CompletionBatcher(queue, worker: "w1", batchingWindow: .zero)
            // The worker is alive: each expired lease counts on its own.
            _ = try await fixture.queue.renew([], worker: "w1", lease: .seconds(60), info: #"{"renewal":5}"#)
            try await fixture.expire(jobs[2])
            #expect(try await fixture.queue.sweep() == 1)
            #expect(try await fixture.finish(jobs[3]) == .ok)
            try await withThrowingTaskGroup(of: (Int, SettleResult).self) { group in
                for (index, job) in jobs.enumerated() {
                    group.addTask { (index, try await batcher.report(completion(job))) }
                }
                for try await (index, result) in group {
                    #expect(result == [.ok, .ok, .fenced, .alreadySettled][index])
                }
            }
        }
    }

    /// A call that fails does so for all of its completions, and each can be reported again.
    @Test func aCallThatFailsLosesNothing() async throws {
        try await withJobs(20) { (fixture, proxy, queue, jobs) async throws in
            let batcher = CompletionBatcher(queue, worker: "w1", batchingWindow: .zero)
            #expect(try await batcher.report(completion(jobs[0])) == .ok)
            proxy.blackHole(true)
            let failed = await withTaskGroup(of: Bool.self) { group in
                for job in jobs.dropFirst() {
                    group.addTask { (try? await batcher.report(completion(job))) == nil }  // Reported again below.
                    // The first goes alone, and all others wait for it.
                    while !batcher.isCalling, !Task.isCancelled { await Task.yield() }
                }
                while batcher.waitingCount < jobs.count - 2, !Task.isCancelled { await Task.yield() }
                proxy.cut()
                proxy.blackHole(false)
                return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(failed >= 1)
            for job in jobs.dropFirst() {
                #expect([.ok, .alreadySettled].contains(try await batcher.report(completion(job))))
            }
            #expect(try await fixture.batch("b")["done"] == 20)
            #expect(try await fixture.count("ZCARD", fixture.keys.lease) == 0)
        }
    }
}
