import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// Batches as a program outside of this package submits and reads them.
@Suite(.timeLimit(.minutes(2))) struct ClusterClientTests {
    private let keys = QueueKeys()
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private let image =
        "data:image/png;base64," + TestImage.quarters(width: 8, height: 8).base64EncodedString()

    private func client(_ server: RedisServerProcess, idleTimeout: Duration = .seconds(60)) throws -> ClusterClient {
        try ClusterClient(redis: server.url, idleTimeout: idleTimeout, logger: logger)
    }

    /// Runs the body with a client and a worker that also admits jobs.
    private func withWorker(_ body: (ClusterClient, RedisServerProcess) async throws -> Void) async throws {
        try await RedisServerProcess.run { (server) async throws in
            var configuration = Worker.Configuration(control: server.configuration)
            configuration.takeoverDelay = .zero
            try await TestWorker.run(configuration) { try await body(try client(server), server) }
        }
    }

    private func all(_ batch: Batch) async throws -> [JobOutcome] {
        try await batch.outcomes.reduce(into: []) { $0.append($1) }
    }

    /// Ends a batch without a worker: its ledger has `count` outcomes, and its counters say that it has ended.
    private func end(_ batch: Batch, with count: Int, _ redis: RedisClient) async throws {
        let lines = (0..<count).map { JobOutcome(id: "j\($0)", source: "s", status: .done).json() }
        for start in stride(from: 0, to: count, by: 500) {
            let some = lines[start..<min(start + 500, count)].map {
                RedisArgument.string(String(decoding: $0, as: UTF8.self))
            }
            try await redis.send(RedisCommand(["RPUSH", .string(keys.results(batch.name))] + some))
        }
        try await redis.send(["HSET", .string(keys.batch(batch.name)), "finished", "1", "total", .int(count)])
    }

    private func stored(_ batch: Batch, _ redis: RedisClient) async throws -> Int? {
        try await redis.send(["LLEN", .string(keys.results(batch.name))]).int
    }

    @Test func everyJobOfABatchHasAnOutcome() async throws {
        try await withWorker { (client, server) async throws in
            let rendition = Rendition(name: "small", width: 4, height: 4)
            let jobs = (0..<300).map { number in
                Job(id: "j\(number)", source: image, renditions: [rendition], labels: ["number": .integer(number)])
            }
            let batch = try await client.submit(jobs, batch: "spring")
            let outcomes = try await all(batch)
            #expect(outcomes.count == 300 && outcomes.allSatisfy { $0.status == .done && $0.outputs.count == 1 })
            #expect(outcomes.allSatisfy { $0.outputs.first?.name == "small" && $0.outputs.first?.width == 4 })
            #expect(Set(outcomes.map(\.labels)) == Set(jobs.map(\.labels)))
            let counters = try await batch.counters()
            #expect(counters.isFinished && counters["done"] == 300)
            let redis = server.client()
            defer { redis.close() }
            #expect(try await stored(batch, redis) == 0, "the reader has all of them")
            #expect(try await all(client.batch("spring")).isEmpty, "nothing is left for a later reader")
            #expect(try await client.status().livingWorkers.count == 1)
        }
    }

    /// The code of the module's landing page.
    @Test func aBatchIsSubmittedAndReadAsTheDocumentationSays() async throws {
        try await withWorker { (observer, server) async throws in
            let (redis, urls) = (server.url, [image, "data:,no%20image"])
            let client = try ClusterClient(redis: redis)
            let renditions = [Rendition(name: "small", width: 256)]
            let batch = try await client.submit(urls.map { Job(source: $0, renditions: renditions) })
            for try await outcome in batch.outcomes {
                print(outcome.source, outcome.status, outcome.error?.message ?? "")
            }
            client.close()
            let counters = try await observer.batch(batch.name).counters()
            #expect(counters.isFinished && counters["done"] == 1 && counters["failed"] == 1)
        }
    }

    @Test func anEmptyBatchEndsAtOnce() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let batch = try await client(server).submit([])
            #expect(try await all(batch).isEmpty)
            #expect(try await batch.counters().isFinished)
        }
    }

    @Test func failuresOfJobsAreOutcomes() async throws {
        try await withWorker { (client, _) async throws in
            let jobs = [
                Job(id: "good", source: image), Job(id: "damaged", source: "data:image/png;base64,AAAA"),
                Job(id: "refused", source: image, attempts: 0),
            ]
            let outcomes = try await all(try await client.submit(jobs))
            let byID = Dictionary(uniqueKeysWithValues: outcomes.map { ($0.id, $0) })
            #expect(outcomes.count == 3 && byID["good"]?.status == .done)
            #expect(byID["damaged"]?.status == .failed && byID["damaged"]?.error?.retryable == false)
            #expect(byID["refused"]?.error?.code == "invalid_job")
        }
    }

    @Test func aRepeatedIDHasAnOutcomeOfItsOwn() async throws {
        try await withWorker { (client, _) async throws in
            let other = Job(id: "a", source: image, renditions: [Rendition(width: 2)])
            let outcomes = try await all(
                try await client.submit([Job(id: "a", source: image), Job(id: "a", source: image), other])
            )
            #expect(outcomes.count == 3 && outcomes.allSatisfy { $0.id == "a" })
            #expect(outcomes.count { $0.status == .done } == 1)
            #expect(outcomes.count { $0.error?.code == "id_conflict" } == 1)
            let duplicate = outcomes.first { $0.status == .deduplicated }
            #expect(duplicate?.outputs.count == 1, "the outputs of the first")
        }
    }

    @Test func equalJobsAreDoneOnceOnRequest() async throws {
        try await withWorker { (client, _) async throws in
            let jobs = [Job(source: image), Job(source: image)]
            let outcomes = try await all(try await client.submit(jobs, deduplicates: true, weight: 7))
            #expect(Set(outcomes.map(\.status)) == [.done, .deduplicated])
        }
    }

    @Test func aCancelledIterationEndsAndItsBatchGoesOn() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = try client(server)
            let batch = try await client.submit([Job(source: image)])
            let redis = server.client()
            defer { redis.close() }
            let reading = Task { try await all(batch) }
            // The iteration waits for an outcome on its own connection.
            while try await redis.send(["INFO", "clients"]).string?.contains("blocked_clients:1") != true {
                await Task.yield()
            }
            reading.cancel()
            await #expect(throws: CancellationError.self) { try await reading.value }
            #expect(try await !batch.counters().isFinished)
            try await batch.cancel()
            #expect(try await all(batch).isEmpty, "the cluster had not taken the job in")
            #expect(try await batch.counters()["cancelled"] == 1)
        }
    }

    @Test func aCancelledSubmissionCancelsItsBatch() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = try client(server)
            let submission = Task {
                let jobs = sequence(first: 0) { $0 + 1 }.lazy.map { number in
                    if number == 1_200 { withUnsafeCurrentTask { $0?.cancel() } }
                    return Job(source: image)
                }
                return try await client.submit(jobs, batch: "b")
            }
            await #expect(throws: CancellationError.self) { try await submission.value }
            let counters = try await client.batch("b").counters()
            #expect(counters["cancelled"] == 1_000 && counters.isFinished)
        }
    }

    /// The batch of another client that has the same name continues, however this client's submission ends.
    @Test func aSubmissionThatWasNeverPushedCancelsNoOtherBatch() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let other = try await self.client(server).submit([Job(source: image)], batch: "b")
            let client = try self.client(server)
            let submission = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return try await client.submit([Job(source: image)], batch: "b")
            }
            await #expect(throws: CancellationError.self) { try await submission.value }
            let redis = server.client()
            defer { redis.close() }
            try await redis.send(["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
            await #expect { _ = try await client.submit([Job(source: image)], batch: "b") } throws: {
                ($0 as? ClusterError)?.code == .invalidConfiguration
            }
            let counters = try await other.counters()
            #expect(counters["cancelled"] == 0 && !counters.isFinished)
            #expect(try await redis.send(["SCARD", .string(keys.cancelled)]).int == 0)
        }
    }

    /// A full Redis refuses a push before it compares the submitters, but does not refuse a cancellation.
    @Test func aSubmissionThatAFullRedisRefusedCancelsNoOtherBatch() async throws {
        let options = RedisServerProcess.Options(settings: ["maxmemory-policy noeviction"])
        try await RedisServerProcess.run(options) { (server) async throws in
            let other = try await self.client(server).submit([Job(source: image)], batch: "b")
            let redis = server.client()
            defer { redis.close() }
            try await redis.send(["CONFIG", "SET", "maxmemory", "1"])
            let client = try self.client(server)
            let submission = Task { try await client.submit([Job(source: image)], batch: "b") }
            while try await redis.send(["INFO", "errorstats"]).string?.contains("errorstat_OOM") != true {
                await Task.yield()
            }
            submission.cancel()
            await #expect(throws: CancellationError.self) { try await submission.value }
            let counters = try await other.counters()
            #expect(counters["cancelled"] == 0 && !counters.isFinished)
            #expect(try await redis.send(["SCARD", .string(keys.cancelled)]).int == 0)
        }
    }

    /// A page of outcomes is read when the one before was consumed, and only then do its outcomes leave Redis.
    @Test func aSlowConsumerLeavesOutcomesInRedis() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let batch = try await client(server).submit((0..<2_500).map { Job(id: "j\($0)", source: image) })
            let redis = server.client()
            defer { redis.close() }
            try await end(batch, with: 2_500, redis)
            var iterator = batch.outcomes.makeAsyncIterator()
            var ids: [String?] = []
            for (count, left) in [(1, 2_500), (999, 2_500), (1, 1_500), (999, 1_500), (1, 500), (499, 500)] {
                for _ in 0..<count { ids.append(try await iterator.next()?.id) }
                #expect(try await stored(batch, redis) == left, "\(ids.count)")
            }
            #expect(try await iterator.next() == nil && ids == (0..<2_500).map { "j\($0)" })
            #expect(try await stored(batch, redis) == 0)
        }
    }

    @Test func aLaterReaderBeginsWithTheFirstPageThatWasNotLeft() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let batch = try await client(server).submit((0..<2_500).map { Job(id: "j\($0)", source: image) })
            let redis = server.client()
            defer { redis.close() }
            try await end(batch, with: 2_500, redis)
            var (first, second) = (batch.outcomes.makeAsyncIterator(), batch.outcomes.makeAsyncIterator())
            #expect(try await first.next()?.id == "j0")
            #expect(try await second.next()?.id == "j0")
            for _ in 1...2_000 { _ = try await first.next() }
            var later = try client(server).batch(batch.name).outcomes.makeAsyncIterator()
            #expect(try await later.next()?.id == "j2000")
            for _ in 1..<1_000 { #expect(try await second.next() != nil) }
            await #expect { _ = try await second.next() } throws: { ($0 as? ClusterError)?.code == .otherReader }
            #expect(try await first.next()?.id == "j2001", "the faster one goes on")
        }
    }

    @Test func outcomesAreReadFromANumber() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let batch = try await client(server).submit((0..<5).map { Job(id: "j\($0)", source: image) })
            let redis = server.client()
            defer { redis.close() }
            try await end(batch, with: 5, redis)
            let ids: [String?] = try await batch.outcomes(from: 4).reduce(into: []) { $0.append($1.id) }
            #expect(ids == ["j3", "j4"])
            #expect(try await stored(batch, redis) == 0, "those before that number are deleted too")
        }
    }

    /// Jobs of the public list never close the batch that they name.
    @Test func aBatchIsClosedByAnyClient() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = try client(server)
            let redis = server.client()
            defer { redis.close() }
            await #expect { try await client.batch("b").close() } throws: {
                ($0 as? ClusterError)?.code == .unknownBatch
            }
            try await redis.send(["HSET", .string(keys.batch("b")), "ledger", "1"])
            try await client.batch("b").close(expected: 1)
            #expect(try await !client.batch("b").counters().isFinished, "one job is still to come")
            try await client.batch("b").close(expected: 0)
            #expect(try await client.batch("b").counters().isFinished)
            #expect(try await all(client.batch("b")).isEmpty)
        }
    }

    @Test func anIterationWithoutWorkersEndsWithAnError() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let batch = try await client(server, idleTimeout: .milliseconds(100)).submit([Job(source: image)])
            await #expect { _ = try await all(batch) } throws: { ($0 as? ClusterError)?.code == .noWorker }
            #expect(try await !batch.counters().isFinished, "the job waits")
        }
    }

    /// Another submitter may have died, or never closes its batch.
    @Test func anIterationOfABatchThatIsNeverClosedEndsWithAnError() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = try client(server, idleTimeout: .milliseconds(100))
            let submitter = BatchSubmitter(
                queue: try await client.queue().first,
                batch: "b",
                policy: .init(keepsLedger: true)
            )
            for id in ["j0", "j1"] { try await submitter.add(Job(id: id, source: image).json()) }
            try await submitter.flush()
            let redis = server.client()
            defer { redis.close() }
            let line = String(decoding: JobOutcome(id: "j0", source: "s", status: .done).json(), as: UTF8.self)
            try await redis.send(["RPUSH", .string(keys.results("b")), .string(line), .string(line)])
            try await redis.send(["HSET", .string(keys.batch("b")), "total", "2", "own", "2", "done", "2"])
            var ids: [String?] = []
            await #expect {
                for try await outcome in client.batch("b").outcomes { ids.append(outcome.id ?? "") }
            } throws: {
                ($0 as? ClusterError)?.code == .notClosed
            }
            #expect(ids == ["j0", "j0"], "the outcomes were read before")
            try await submitter.close()
            #expect(try await all(client.batch("b")).isEmpty, "and the iteration ends")
        }
    }

    @Test func anIterationSurvivesARestartOfRedis() async throws {
        let options = RedisServerProcess.Options(settings: ["appendonly yes", "appendfsync always"])
        try await RedisServerProcess.run(options) { (server) async throws in
            let batch = try await client(server).submit([Job(source: image)])
            let reading = Task { try await all(batch) }
            await server.crash()
            try await server.startAgain()
            let redis = server.client()
            defer { redis.close() }
            try await end(batch, with: 1, redis)
            #expect(try await reading.value.map(\.id) == ["j0"])
        }
    }

    @Test func jobsAndOutcomesThatRedisLostAreReported() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = try client(server)
            let redis = server.client()
            defer { redis.close() }
            let short = try await client.submit([Job(source: image), Job(source: image)])
            try await redis.send(["HSET", .string(keys.batch(short.name)), "submitted", "1"])
            await #expect { _ = try await all(short) } throws: { ($0 as? ClusterError)?.code == .jobsLost }
            let full = try await client.submit([Job(source: image)])
            try await redis.send(["HSET", .string(keys.batch(full.name)), "results_dropped", "1", "finished", "1"])
            await #expect { _ = try await all(full) } throws: { ($0 as? ClusterError)?.code == .outcomesLost }
        }
    }

    /// Fault: both had the code `redis` and the text of the script.
    @Test(arguments: [("BATCHCLOSED x", ClusterError.Code.batchClosed), ("BATCHBEHIND x", .jobsLost)])
    func errorsOfPushesHaveCodes(_ reply: String, _ code: ClusterError.Code) {
        #expect(ClusterError(RedisError(reply: reply)).code == code)
    }

    @Test func batchesThatCannotBeReadOrSubmittedAreErrors() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = try client(server)
            await #expect { _ = try await all(client.batch("b")) } throws: {
                ($0 as? ClusterError)?.code == .unknownBatch
            }
            await #expect { try await client.batch("b").cancel() } throws: {
                ($0 as? ClusterError)?.code == .unknownBatch
            }
            let submitter = BatchSubmitter(queue: try await client.queue().first, batch: "b")
            try await submitter.close()
            await #expect { _ = try await all(client.batch("b")) } throws: {
                ($0 as? ClusterError)?.code == .noOutcomes
            }
            await #expect { _ = try await client.submit([], batch: "b") } throws: {
                ($0 as? ClusterError)?.code == .batchExists
            }
            await #expect { _ = try await client.submit([], batch: "a b") } throws: {
                ($0 as? ClusterError)?.code == .invalidConfiguration
            }
            for weight in [0, 101] {
                await #expect { _ = try await client.submit([], weight: weight) } throws: {
                    ($0 as? ClusterError)?.code == .invalidConfiguration
                }
            }
            #expect(throws: ClusterError.self) { try ClusterClient(redis: "http://localhost") }
            #expect(throws: ClusterError.self) { try ClusterClient(redis: server.url, queue: "{") }
            client.close()
            await #expect { _ = try await client.status() } throws: { ($0 as? ClusterError)?.code == .redis }
        }
    }
}
