import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster

/// Numbered outcomes: readers that die, look, fall behind or meet a Redis that has returned to an earlier state.
@Suite(.timeLimit(.minutes(2))) struct OutcomeNumberTests {
    /// Submits jobs with a ledger and ends them.
    private func end(_ ids: some Sequence<Int>, of fixture: QueueFixture, worker: String = "w1") async throws {
        let jobs = try await fixture.claim(1000, worker: worker)
        for id in ids {
            let job = try #require(jobs.first { $0.id == "j\(id)" })
            #expect(try await fixture.finish(job, worker: worker) == .ok)
        }
        try await fixture.queue.release(
            jobs.filter { job in !ids.contains { "j\($0)" == job.id } }.map { ($0.key.text, $0.attempt) },
            worker: worker,
            leaves: false
        )
    }

    private func submit(_ count: Int, to fixture: QueueFixture) async throws {
        let jobs = (0..<count).map { QueueFixture.job("j\($0)", batch: "b") }
        try await fixture.submit(jobs, to: "b", policy: .init(keepsLedger: true))
        try await fixture.admitAll(count)
    }

    private func ids(_ lines: [Data]) throws -> [String] {
        try lines.map { try #require(JSONDecoder().decode(JobOutcome.self, from: $0).id) }
    }

    /// Fault: 47 of 6,000 outcomes were missing after a failover, and 47 were there twice.
    @Test func aRestartFromAnOlderFileLosesNoOutcomeAndRepeatsNone() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await submit(30, to: fixture)
            try await end(0..<10, of: fixture)
            var cursor = OutcomeCursor(queue: fixture.queue, batch: "b")
            var read = try ids(try await cursor.next())
            _ = try await cursor.next()
            try await fixture.redis.send(["SAVE"])
            try await end(10..<20, of: fixture)
            read += try ids(try await cursor.next())
            #expect(read.count == 20)
            try await fixture.restart()
            #expect(try await fixture.batch("b").ended == 10)
            // The jobs that were running run again, in another order, and more end than the reader has seen.
            try await end((5..<10).map { 2 * $0 + 1 } + (20..<28), of: fixture, worker: "w2")
            read += try ids(try await cursor.next())
            #expect(cursor.history.returns == 1 && cursor.history.number == 23)
            try await end((5..<10).map { 2 * $0 } + [28, 29], of: fixture, worker: "w2")
            while true {
                let lines = try await cursor.next()
                if lines.isEmpty { break }
                read += try ids(lines)
            }
            #expect(try await fixture.batch("b").isFinished)
            #expect(read.count == 30 && Set(read) == Set((0..<30).map { "j\($0)" }))
            #expect(cursor.history.ids(missingFrom: (0..<30).map { "j\($0)" }, limit: 9).isEmpty)
        }
    }

    @Test func aReaderContinuesAtAReplicaThatLagged() async throws {
        let port = try FreePort.find()
        try await QueueFixture.run(.init(port: port)) { (fixture) async throws in
            try await RedisServerProcess.run { (server) async throws in
                let replica = server.client()
                defer { replica.close() }
                try await replica.send(["REPLICAOF", "127.0.0.1", .int(port)])
                while try await replica.send(["INFO", "replication"]).string?.contains("master_link_status:up") != true
                {
                    await Task.yield()
                }
                try await submit(12, to: fixture)
                try await end(0..<4, of: fixture)
                var cursor = OutcomeCursor(queue: fixture.queue, batch: "b")
                var read = try ids(try await cursor.next())
                try await fixture.redis.send(["WAIT", "1", "0"])
                // The link is cut: the replica becomes a master that lacks all that follows.
                try await replica.send(["REPLICAOF", "NO", "ONE"])
                try await end(4..<8, of: fixture)
                read += try ids(try await cursor.next())
                #expect(read.count == 8)
                await fixture.server.crash()
                let queue = JobQueue(replica, keys: fixture.keys)
                var later = OutcomeCursor(queue: queue, batch: "b", history: cursor.history)
                #expect(try await later.next().isEmpty, "it has fewer outcomes than the reader")
                let jobs = try await queue.claim(12, worker: "w3", lease: .seconds(60))
                #expect(jobs.count == 8)
                for job in jobs.reversed() {
                    let outcome = JobOutcome(id: job.id, source: job.id, status: .done)
                    let end = JobCompletion(job: job, outcome: outcome, dead: nil, counters: [:])
                    #expect(try await queue.settle([end], worker: "w3") == [.ok])
                }
                read += try ids(try await later.next())
                #expect(later.history.returns > 0)
                #expect(read.count == 12 && Set(read).count == 12, "\(read)")
            }
        }
    }

    @Test func aReaderThatOnlyLooksDeletesNothing() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await submit(5, to: fixture)
            try await end(0..<5, of: fixture)
            for first in [0, 2] {
                var cursor = OutcomeCursor(
                    queue: fixture.queue,
                    batch: "b",
                    history: OutcomeHistory(after: first),
                    acknowledges: false
                )
                #expect(try ids(try await cursor.next()) == (first..<5).map { "j\($0)" })
                #expect(try await cursor.next().isEmpty)
            }
            #expect(try await fixture.count("LLEN", fixture.keys.results("b")) == 5)
            var reader = OutcomeCursor(queue: fixture.queue, batch: "b")
            for _ in 0..<2 { _ = try await reader.next() }
            #expect(try await fixture.count("EXISTS", fixture.keys.results("b")) == 0)
            var late = OutcomeCursor(queue: fixture.queue, batch: "b", acknowledges: false)
            #expect(try await late.next().isEmpty && late.history.deleted == 5)
            var other = OutcomeCursor(queue: fixture.queue, batch: "b")
            await #expect { _ = try await other.next() } throws: { ($0 as? RedisError)?.code == .otherReader }
        }
    }

    /// Other programs read with BLPOP.
    @Test func outcomesThatAnotherProgramPoppedAreCounted() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await submit(6, to: fixture)
            try await end(0..<4, of: fixture)
            try await fixture.redis.send(["LPOP", .string(fixture.keys.results("b")), "3"])
            var cursor = OutcomeCursor(queue: fixture.queue, batch: "b")
            #expect(try ids(try await cursor.next()) == ["j3"])
            #expect(cursor.history.deleted == 3 && cursor.history.number == 4)
            try await end(4..<6, of: fixture)
            #expect(try ids(try await cursor.next()) == ["j4", "j5"])
            #expect(cursor.history.returns == 0)
            #expect(try await cursor.next().isEmpty)
            #expect(try await fixture.queue.outcomeBytes() == 0)
        }
    }

    @Test func outcomesBeyondTheLimitAreDroppedAndCounted() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let limits = Retention.Limits(deadLetters: 1_000_000, outcomes: 300)
            try await fixture.queue.expireDeadLetters(olderThan: .seconds(60), limits: limits, limit: 10)
            try await submit(20, to: fixture)
            try await end(0..<20, of: fixture)
            let batch = try await fixture.batch("b")
            let kept = try await fixture.count("LLEN", fixture.keys.results("b"))
            #expect(batch.isFinished && kept > 0 && batch["results_dropped"] == 20 - kept && batch["outcomes"] == kept)
            #expect(try await fixture.queue.outcomeBytes() <= 300)
            // The batch has ended: it makes room for others.
            let keeper = RetentionKeeper(
                queue: fixture.queue,
                batches: .seconds(60),
                retention: Retention(),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
            await keeper.tidy(Retention.Limits(deadLetters: 1_000_000, outcomes: 100))
            #expect(try await fixture.queue.outcomeBytes() == 0)
            #expect(try await fixture.batch("b")["results_deleted"] == kept)
            var cursor = OutcomeCursor(queue: fixture.queue, batch: "b")
            #expect(try await cursor.next().isEmpty && cursor.history.deleted == kept)
        }
    }
}
