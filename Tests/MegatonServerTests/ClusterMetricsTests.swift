import Foundation
import Logging
import MegatonCore
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster
@testable import MegatonServer

/// The metrics of a cluster of which another program has written a key.
@Suite(.timeLimit(.minutes(1))) struct ClusterMetricsTests {
    private static let keys = QueueKeys()

    /// Keys, and the metrics that need them.
    private static let cases: [(key: String, hidden: [MetricDescription])] = [
        (
            keys.stat,
            [
                ClusterMetrics.ended, ClusterMetrics.retried, ClusterMetrics.stalled, ClusterMetrics.hostFetches,
                ClusterMetrics.cache,
            ]
        ),
        (keys.dead, [ClusterMetrics.jobs]), (keys.ready(.high), [ClusterMetrics.jobs, ClusterMetrics.oldest]),
        (keys.rate, [ClusterMetrics.hosts, ClusterMetrics.openHosts, ClusterMetrics.hostFailures]),
        (keys.control, [ClusterMetrics.paused]),
        (keys.workerInfo, [ClusterMetrics.workers, ClusterMetrics.places, ClusterMetrics.silentWorkers]),
        (keys.lease, [ClusterMetrics.jobs, ClusterMetrics.overdue]),
        (keys.jobs(.bulk), [ClusterMetrics.jobs, ClusterMetrics.intake]),
    ]

    @Test(arguments: 0..<8) func aDamagedKeyHidesItsMetricsOnly(_ number: Int) async throws {
        let (key, hidden) = Self.cases[number]
        try await RedisServerProcess.run { (redis) async throws in
            let client = redis.client()
            defer { client.close() }
            let inspector = Inspector(queue: JobQueue(client, keys: Self.keys), caches: [])
            #expect(try await ClusterMetrics.read(inspector).missing.isEmpty)
            _ = try await client.send(["SET", .string(key), "another program's"])
            let reader = ClusterMetricsReader(
                { inspector },
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
            let families = await reader.families()
            let names = Set(families.map(\.description.name))
            #expect(Set(ClusterMetrics.descriptions.map(\.name)).subtracting(names) == Set(hidden.map(\.name)))
            #expect(families.contains(MetricFamily(ClusterMetrics.up, 1)))
            #expect(families.contains(MetricFamily(ClusterMetrics.missing, Double(hidden.count))))
        }
    }

    /// A source may be `http://other/a.jpg`.
    @Test func aHostNamedOtherHasNoSecondSample() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let client = redis.client()
            defer { client.close() }
            let further = (0...ClusterMetrics.shownHosts).map { ("\($0).example.org", $0 + 1) }
            for (host, count) in [("other", 1000)] + further {
                _ = try await client.send(["HSET", .string(Self.keys.statHosts), .string(host), .int(count)])
            }
            let inspector = Inspector(queue: JobQueue(client, keys: Self.keys), caches: [])
            let families = try await ClusterMetrics.read(inspector).families
            let fetches = try #require(families.first { $0.description.name == ClusterMetrics.hostFetches.name })
            #expect(fetches.samples.count == ClusterMetrics.shownHosts + 1)
            // The host with the fewest requests counts there too.
            let others = fetches.samples.filter { $0.labels.first?.value == "other" }
            #expect(others == [MetricFamily.Sample(1001, labels: [("host", "other")])])
        }
    }

    @Test func intakesLeasesPlacesAndFailuresAreShown() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let client = redis.client()
            defer { client.close() }
            let queue = JobQueue(client, keys: Self.keys)
            for (key, count) in [(Self.keys.jobs, 2), (Self.keys.jobs(.high), 1), (Self.keys.jobs(batch: "b"), 4)] {
                for _ in 0..<count { _ = try await client.send(["LPUSH", .string(key), "{}"]) }
            }
            _ = try await client.send(["ZADD", .string(Self.keys.intakes), "1", "b"])
            let now = try await queue.milliseconds()
            for (id, expiry) in [("a", now - 20_000), ("b", now + 60_000)] {
                _ = try await client.send(["ZADD", .string(Self.keys.lease), .int(Int(expiry)), .string(id)])
            }
            for (name, places) in [("one", 16), ("two", 8)] {
                _ = try await client.send(["ZADD", .string(Self.keys.workers), .int(Int(now)), .string(name)])
                let info = "0 " + WorkerInfo(concurrency: places).json
                _ = try await client.send(["HSET", .string(Self.keys.workerInfo), .string(name), .string(info)])
            }
            // A limited host with three failures: tat, since, factor, blocked, failures, open.
            for number in 0...ClusterMetrics.shownHosts {
                let host = "h\(number).example.org:443"
                _ = try await client.send(["HSET", .string(Self.keys.rate), .string(host), "0 0 0.5 0 3 0"])
            }
            let families = try await ClusterMetrics.read(Inspector(queue: queue, caches: [])).families
            func samples(_ description: MetricDescription) -> [MetricFamily.Sample] {
                families.first { $0.description.name == description.name }?.samples ?? []
            }
            let intake = [("high", 1.0), ("normal", 2), ("bulk", 0), ("", 4)]
            #expect(
                Set(samples(ClusterMetrics.intake).map { "\($0.labels) \($0.value)" })
                    == Set(intake.map { "\(MetricFamily.Sample($0.1, labels: [("priority", $0.0)]).labels) \($0.1)" })
            )
            let overdue = try #require(samples(ClusterMetrics.overdue).first?.value)
            #expect((20...60).contains(overdue))
            let places = MetricFamily.Sample(24, labels: [("version", Megaton.version)])
            #expect(samples(ClusterMetrics.places) == [places])
            let failures = samples(ClusterMetrics.hostFailures)
            #expect(failures.count == ClusterMetrics.shownHosts + 1)
            #expect(failures.last == MetricFamily.Sample(3, labels: [("host", "other")]))
        }
    }

    @Test func theNameOfADamagedKeyHasNoQueue() {
        let shard = QueueKeys(queue: "a:b", shard: 3)
        for (key, name) in [
            (shard.stat, "stat"), (shard.jobs(.high), "jobs:high"), (shard.batch("x:y"), "batch:x:y"),
            (Self.keys.stage(epoch: 7), "stage:7"),
        ] {
            #expect(KeyTypes.Damage(key: key, type: "string", expected: "hash").name == name)
        }
    }
}
