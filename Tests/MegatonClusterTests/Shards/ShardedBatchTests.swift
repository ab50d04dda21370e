import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import NIOCore
import NIOPosix
import Testing

@testable import MegatonCluster

/// Batches on queues with several shards, with real workers.
@Suite(.timeLimit(.minutes(3))) struct ShardedBatchTests {
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private let group = MultiThreadedEventLoopGroup.singleton
    private let rendition = Rendition(name: "small", width: 4, height: 4)

    /// Images that differ, so that they have different shards.
    private func image(_ number: Int) -> String {
        let png = TestImage.quarters(width: 8 + number % 50, height: 8 + number / 50)
        return "data:image/png;base64,\(png.base64EncodedString())"
    }

    private func jobs(_ count: Int) -> [Job] {
        (0..<count).map { Job(id: "j\($0)", source: image($0), renditions: [rendition]) }
    }

    /// Divides a queue and runs the body with a worker that also admits jobs.
    private func withWorker(
        _ servers: [RedisServerProcess],
        shards: Int,
        concurrency: Int = 4,
        _ body: (ClusterClient, [JobQueue]) async throws -> Void
    ) async throws {
        let address = QueueAddress(servers.map(\.configuration), queue: "default")
        let all = (0..<max(shards, 2)).map { address.shard($0, role: "test", group: group, logger: logger) }
        defer { for shard in all { shard.close() } }
        _ = try await Resharding(address) { all[$0] }.change(to: shards)
        var configuration = Worker.Configuration(control: servers[0].configuration)
        configuration.furtherControls = servers.dropFirst().map(\.configuration)
        configuration.takeoverDelay = .zero
        configuration.concurrency = concurrency
        let urls = servers.map(\.url).joined(separator: " ")
        try await TestWorker.run(configuration) {
            let client = try ClusterClient(redis: urls, idleTimeout: .seconds(60), logger: logger)
            defer { client.close() }
            try await body(client, all)
        }
    }

    private func done(_ shard: JobQueue) async throws -> Int {
        try await shard.redis.send(["HGET", .string(shard.keys.stat), "done"]).int ?? 0
    }

    private func all(_ batch: Batch) async throws -> [JobOutcome] {
        try await batch.outcomes.reduce(into: []) { $0.append($1) }
    }

    @Test(arguments: [1, 3]) func everyJobHasOneOutcome(_ shards: Int) async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withWorker([server], shards: shards) { (client, queues) async throws in
                let jobs = jobs(200)
                let batch = try await client.submit(jobs, batch: "spring")
                let outcomes = try await all(batch)
                #expect(outcomes.count == 200 && Set(outcomes.map(\.id)).count == 200)
                #expect(outcomes.allSatisfy { $0.status == .done })
                let counters = try await batch.counters()
                #expect(counters.isFinished && counters["done"] == 200 && counters["submitted"] == 200)
                #expect(counters["closed"] == 1 && counters["ledger"] == 1)
                for queue in queues.prefix(shards) {
                    let part = BatchCounters(try await queue.batch("spring"))
                    #expect(part["done"] > 0, "each shard has a part of the jobs")
                }
                let status = try await client.status()
                #expect(status.done == 200 && status.livingWorkers.map(\.name) == ["host:1:a"] && status.batches == 1)
                #expect(status.shards?.count == (shards == 1 ? nil : shards))
                #expect(status.leader != nil)
            }
        }
    }

    @Test func shardsMayBeOnSeveralServers() async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                try await withWorker([first, second], shards: 2) { (client, queues) async throws in
                    let outcomes = try await all(try await client.submit(jobs(60)))
                    #expect(outcomes.count == 60 && outcomes.allSatisfy { $0.status == .done })
                    for queue in queues {
                        #expect(try await done(queue) > 0)
                    }
                }
            }
        }
    }

    /// The jobs of foreign clients stay in shard 0, and the worker serves them.
    @Test func thePublicListIsTheFrontDoor() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withWorker([server], shards: 3) { (client, queues) async throws in
                let list = RedisArgument.string("megaton:{default}:jobs")
                for number in 0..<10 {
                    let job = Job(id: "p\(number)", source: image(number), renditions: [rendition], batch: "pushed")
                    try await queues[0].redis.send(["LPUSH", list, .buffer(ByteBuffer(bytes: job.json()))])
                }
                let batch = client.batch("pushed")
                while try await !batch.counters().isKnown { await Task.yield() }
                try await batch.close(expected: 10)
                while try await !batch.counters().isFinished { await Task.yield() }
                #expect(try await batch.counters()["done"] == 10)
            }
        }
    }

    @Test func equalIdsMeetInOneShard() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withWorker([server], shards: 4) { (client, _) async throws in
                var jobs = jobs(40)
                // The same ids again: the first twenty with the same jobs, the others with other sources.
                for number in 0..<40 {
                    var job = jobs[number]
                    if number >= 20 { job.source = image(number + 100) }
                    jobs.append(job)
                }
                let outcomes = try await all(try await client.submit(jobs))
                #expect(outcomes.count == 80)
                let codes = Dictionary(grouping: outcomes) { $0.error?.code ?? $0.status.rawValue }.mapValues(\.count)
                #expect(codes == ["done": 40, "deduplicated": 20, "id_conflict": 20])
            }
        }
    }

    @Test func aBatchWithASmallWorkerReachesAllShards() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withWorker([server], shards: 4, concurrency: 1) { (client, _) async throws in
                let outcomes = try await all(try await client.submit(jobs(40)))
                #expect(outcomes.count == 40 && outcomes.allSatisfy { $0.status == .done })
            }
        }
    }

    @Test func aNameBelongsToOneSubmitter() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withWorker([server], shards: 3) { (client, _) async throws in
                _ = try await all(try await client.submit(jobs(3), batch: "spring"))
                await #expect { _ = try await client.submit(jobs(3), batch: "spring") } throws: {
                    ($0 as? ClusterError)?.code == .batchExists
                }
                #expect(try await client.batch("spring").counters()["cancelled"] == 0)
                await #expect { _ = try await all(client.batch("other")) } throws: {
                    ($0 as? ClusterError)?.code == .unknownBatch
                }
            }
        }
    }

    /// Fault: the sum of the other shards looked like a finished batch, and readers ended as if nothing was missing.
    @Test func aLostPartIsNoticedByReaders() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withWorker([server], shards: 3) { (client, queues) async throws in
                let batch = try await client.submit(jobs(60), batch: "spring")
                while try await !batch.counters().isFinished { await Task.yield() }
                #expect(try await batch.counters()["shards"] == 3)
                let lost = queues[2]
                let count = try await BatchCounters(lost.batch("spring"))["submitted"]
                #expect(count > 0)
                try await lost.redis.send([
                    "DEL", .string(lost.keys.batch("spring")), .string(lost.keys.results("spring")),
                ])
                let counters = try await batch.counters()
                #expect(!counters.isFinished && counters["shards_lost"] == 1 && counters["submitted"] == 60 - count)
                var received = 0
                await #expect {
                    for try await _ in client.batch("spring").outcomes { received += 1 }
                } throws: {
                    ($0 as? ClusterError)?.code == .jobsLost && "\($0)".contains("1 of 3 shards no longer has its part")
                }
                #expect(received == 60 - count, "the outcomes of the others come first")
            }
        }
    }

    /// All jobs of a small batch may be in one shard: then a shard that has lost its part has lost nothing.
    @Test func aLostPartWithoutJobsIsNoLossForItsSubmitter() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withWorker([server], shards: 2) { (client, queues) async throws in
                let batch = try await client.submit(jobs(1), batch: "spring")
                while try await !batch.counters().isFinished { await Task.yield() }
                for queue in queues where BatchCounters(try await queue.batch("spring"))["submitted"] == 0 {
                    try await queue.redis.send(["DEL", .string(queue.keys.batch("spring"))])
                }
                #expect(try await all(batch).count == 1)
            }
        }
    }

    @Test func aPausedShardDelaysOnlyItsJobs() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withWorker([server], shards: 2, concurrency: 1) { (client, queues) async throws in
                try await queues[1].set(.paused, to: true)
                let batch = try await client.submit(jobs(40))
                let part = BatchCounters(try await queues[0].batch(batch.name))["submitted"]
                while try await batch.counters().ended < part { await Task.yield() }
                #expect(try await batch.counters().ended == part)
                try await queues[1].set(.paused, to: false)
                #expect(try await all(batch).count == 40)
            }
        }
    }

    /// A shard that hangs keeps no place from the others.
    @Test func workGoesOnWithoutAShard() async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                try await withWorker([first, second], shards: 2, concurrency: 2) { (client, queues) async throws in
                    _ = try await all(try await client.submit(jobs(10)))
                    let before = try await done(queues[0])
                    await second.crash()
                    let list = RedisArgument.string(queues[0].keys.jobs)
                    for number in 0..<20 {
                        let job = Job(id: "p\(number)", source: image(number), renditions: [rendition])
                        try await queues[0].redis.send(["LPUSH", list, .buffer(ByteBuffer(bytes: job.json()))])
                    }
                    while try await done(queues[0]) < before + 20 { await Task.yield() }
                    #expect(try await done(queues[0]) == before + 20)
                    let status = try await client.status()
                    #expect(status.shards?.map(\.isReachable) == [true, false])
                }
            }
        }
    }
}
