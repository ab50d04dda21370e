import Foundation
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Synchronization
import Testing

@testable import MegatonCluster

/// The number of requests that jobs send to a failing origin: a whole worker with its cache, on its own Redis.
@Suite(.timeLimit(.minutes(2))) struct RetriedJobTests {
    private struct Cluster: Sendable {
        let queue: JobQueue
        let origin: OriginServer

        /// Pushes a job for a path that equals its id.
        func push(_ id: String, attempts: Int) async throws {
            let job = Job(id: id, source: origin.url("/\(id)").absoluteString, attempts: attempts)
            try await queue.pushPublicly(String(decoding: job.json(), as: UTF8.self))
        }

        func death(of id: String) async throws -> DeadLetter {
            while !Task.isCancelled {
                if let letter = try await queue.deadLetter(id: id) { return letter }
                await Task.yield()
            }
            throw CancellationError()
        }

        func waitUntilNothingIsAlive() async throws {
            while try await queue.alive() > 0, !Task.isCancelled { await Task.yield() }
        }
    }

    private func withWorker(
        _ change: (inout Worker.Configuration) -> Void = { _ in },
        _ answer: @escaping @Sendable (String) -> OriginServer.Answer,
        _ body: (Cluster) async throws -> Void
    ) async throws {
        try await TestWorker.run { configuration in
            configuration.retry.base = .milliseconds(1)
            change(&configuration)
        } answer: {
            answer($0)
        } _: { (queue, origin) async throws in
            try await body(Cluster(queue: queue, origin: origin))
        }
    }

    /// Fault: the second attempt was answered by the job's own first one.
    @Test func aLoneJobMakesAsManyRequestsAsItHasAttempts() async throws {
        let torn = OriginServer.Answer(
            headers: [("ETag", "\"a\""), ("Accept-Ranges", "bytes")],
            body: TestImage.quarters(width: 64, height: 64).prefix(100),
            announcedLength: 100_000
        )
        try await withWorker {
            $0.hostLimits.failureThreshold = 1000
        } _: { path in
            switch path {
            case "/torn-2": torn
            case "/forbidden-5": .init(status: 403)
            case "/later-3": .init(status: 500, headers: [("Retry-After", "1")])
            default: .init(status: 500)
            }
        } _: { (cluster) async throws in
            let jobs = ["one": 1, "two": 2, "three": 3, "five": 5, "torn-2": 2, "forbidden-5": 5, "later-3": 3]
            for (id, attempts) in jobs { try await cluster.push(id, attempts: attempts) }
            for (id, attempts) in jobs {
                let letter = try await cluster.death(of: id)
                let requests = cluster.origin.count("/\(id)")
                #expect(requests == (id == "forbidden-5" ? 1 : attempts), "\(id)")
                #expect(letter.content.attempts == requests)
            }
        }
    }

    /// Fault: it failed again with the cached failure, although the origin had recovered.
    @Test func aRequeuedJobAsksTheOrigin() async throws {
        let isRepaired = Mutex(false)
        try await withWorker { _ in
        } _: { _ in
            isRepaired.withLock { $0 } ? .image(TestImage.quarters(width: 64, height: 64)) : .init(status: 404)
        } _: { (cluster) async throws in
            try await cluster.push("a", attempts: 3)
            let letter = try await cluster.death(of: "a")
            isRepaired.withLock { $0 = true }
            #expect(try await cluster.queue.requeue([letter]) == 1)
            while cluster.origin.total < 2, !Task.isCancelled { await Task.yield() }
            try await cluster.waitUntilNothingIsAlive()
            #expect(try await cluster.queue.deadLetter(id: "a") == nil)
        }
    }

    /// Fault: the job waited for up to a day, without a report.
    @Test(arguments: [429, 503, 500]) func aRetryAfterBeyondTheLongestWaitFailsTheJobAtOnce(_ status: Int) async throws
    {
        try await withWorker {
            $0.retry.maximumWait = .seconds(120)
            $0.optionNames = ["the retry policy": "the retry policy (--max-wait)"]
        } _: { _ in
            .init(status: status, headers: [("Retry-After", "3600")])
        } _: { (cluster) async throws in
            try await cluster.push("a", attempts: 5)
            let letter = try await cluster.death(of: "a")
            #expect(letter.content.attempts == 1 && letter.content.code == "http_status")
            #expect(
                letter.content.message.contains("3600 s")
                    && letter.content.message.contains(
                        "exceeds the maximum wait of the retry policy (--max-wait), 120 s."
                    )
            )
            // Nor is the origin asked once the job is requeued, although it may be tried several times then.
            #expect(try await cluster.queue.requeue([letter]) == 1)
            while try await cluster.queue.deadLetter(id: "a")?.content.message.contains("remembered") != true {
                await Task.yield()
            }
            #expect(cluster.origin.total == 1)
        }
    }

    @Test func theHostThatABatchWaitsForIsNamed() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let queue = fixture.queue
            #expect(try await queue.awaitedHost(of: "b") == nil)
            for (id, batch) in [("other", "c"), ("mine", "b")] {
                let job = Job(id: id, source: "https://\(id).org:8443/a.jpg", batch: batch)
                try await fixture.submit([job.json()], to: batch)
            }
            try await fixture.admit()
            for job in try await fixture.claim(2) {
                let delay = Duration.seconds(job.batch == "b" ? 60 : 30)
                _ = try await queue.retry(job, worker: "w1", after: delay, countsAttempt: true, counters: [:])
            }
            let waited = try #require(try await queue.awaitedHost(of: "b"))
            #expect(waited.host == "mine.org:8443" && (55...60).contains(waited.seconds))
            #expect(try await queue.awaitedHost(of: "d") == nil)
            // Fault: the jobs of other batches were counted too.
            let delayed = try await queue.delayed(of: "b")
            #expect(delayed.count == 1 && (55...60).contains(delayed.next ?? 0), "\(delayed)")
            #expect(try await queue.delayed(of: "d") == JobQueue.Delayed(count: 0, next: nil))
        }
    }

    @Test func theFieldTravelsAndIsLeftOutAsARule() throws {
        var job = Job(id: "a", source: "https://h/a")
        #expect(!String(decoding: job.json(), as: UTF8.self).contains("ignore"))
        job.ignoresRememberedFailures = true
        #expect(try Job(json: job.json()) == job)
        #expect(try Job(json: job.json(), wasValidated: true) == job)
    }
}
