import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster

/// Findings of the doctor, which leaves a healthy queue unchanged.
@Suite(.timeLimit(.minutes(2))) struct DoctorTests {
    private func examine(
        _ fixture: QueueFixture,
        cache: RedisClient? = nil,
        repair: Bool = false
    ) async -> [Doctor.Finding] {
        let doctor = Doctor(control: fixture.redis, caches: [cache ?? fixture.redis], keys: fixture.keys)
        return await doctor.examine(repair: repair)
    }

    private func findings(_ subject: String, _ all: [Doctor.Finding]) -> [Doctor.Finding] {
        all.filter { $0.subject == subject }
    }

    /// The only finding about a subject.
    private func finding(_ subject: String, _ all: [Doctor.Finding]) throws -> Doctor.Finding {
        let found = findings(subject, all)
        #expect(found.count == 1, "\(subject) in \(all)")
        return try #require(found.first)
    }

    /// All findings except this machine's latency.
    private func complaints(_ all: [Doctor.Finding]) -> [String] {
        all.filter { $0.level != .ok && !$0.subject.hasSuffix("latency") }.map(\.subject)
    }

    // MARK: - Servers

    @Test func aFitRedisAndAnEmptyQueueGiveNoComplaint() async throws {
        let settings = ["appendonly yes", "maxmemory 1gb", "maxmemory-policy volatile-lru"]
        try await QueueFixture.run(.init(settings: settings)) { (fixture) async throws in
            #expect(await complaints(examine(fixture)) == ["workers"], "no job would be done")
            let seconds = try await fixture.redis.send(["TIME"]).array?.first?.int ?? 0
            try await fixture.redis.send(["ZADD", .string(fixture.keys.workers), .int(seconds * 1000), "here"])
            let all = await examine(fixture)
            #expect(complaints(all).isEmpty, "\(all)")
            #expect(try finding("control Redis: role", all).message == "master")
            #expect(
                try finding("control Redis: persistence", all).message == "appendonly is on, appendfsync is everysec"
            )
            #expect(findings("cache Redis: role", all).isEmpty, "one Redis serves both and is looked at once")
            try await fixture.redis.send(["DEL", .string(fixture.keys.leader)])
            #expect(await complaints(examine(fixture)) == ["coordinator"], "no job would be admitted")
        }
    }

    @Test func waitingAndDroppedWebhooksAreCounted() async throws {
        try await QueueFixture.run { (fixture) async throws in
            #expect(try await finding("webhooks", examine(fixture)).message == "no outcome waits")
            let fixture = fixture.allowing(WebhookRules())
            let url = try #require(URL(string: "https://example.com/hook"))
            try await fixture.endJobs(for: [url, url])
            let waiting = try await finding("webhooks", examine(fixture))
            #expect(waiting.level == .warning && waiting.message.hasPrefix("2 outcomes wait for 1 host"), "\(waiting)")
            #expect(waiting.message.contains("--webhook-key"), "\(waiting)")
            try await fixture.redis.send(["SET", .string(fixture.keys.webhookRules), "{}"])
            #expect(try await finding("webhooks", examine(fixture)).level == .ok)
            try await fixture.redis.send(["HSET", .string(fixture.keys.stat), "webhooks_dropped", "1"])
            let dropped = try await finding("webhooks", examine(fixture))
            #expect(dropped.level == .warning && dropped.message.contains("; 1 was dropped"), "\(dropped)")
        }
    }

    /// Fault: the rules of the last coordinator hid that no coordinator was left.
    @Test func webhooksThatNoCoordinatorSendsAreWorthAWarning() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let fixture = fixture.allowing(WebhookRules())
            try await fixture.endJobs(for: [try #require(URL(string: "https://example.com/hook"))])
            try await fixture.redis.send(["SET", .string(fixture.keys.webhookRules), "{}"])
            #expect(try await finding("webhooks", examine(fixture)).level == .ok)
            try await fixture.leadership.resign()
            let none = try await finding("webhooks", examine(fixture))
            #expect(none.level == .warning && none.message.contains("and no coordinator leads. Start"), "\(none)")
            #expect(none.message.contains("--webhook-key") && none.message.contains("after 24 h"), "\(none)")
            let worker = Leadership(queue: fixture.queue, name: "w", lease: .seconds(60), isFallback: true)
            _ = try await worker.tryToLead()
            try await fixture.redis.send(["HSET", .string(fixture.keys.stat), "webhooks_dropped", "2"])
            let led = try await finding("webhooks", examine(fixture))
            #expect(led.level == .warning && led.message.contains("a worker leads, which has no key"), "\(led)")
            #expect(led.message.contains("2 were dropped"), "\(led)")
        }
    }

    @Test func aPolicyThatEvictsJobsIsAnError() async throws {
        try await QueueFixture.run(.init(settings: ["maxmemory-policy allkeys-lru"])) { (fixture) async throws in
            let policy = try await finding("control Redis: maxmemory-policy", examine(fixture))
            #expect(policy.level == .error && policy.message.contains("noeviction"))
        }
    }

    @Test(arguments: [["maxmemory 1gb"], ["maxmemory-policy volatile-lru"]])
    func aCacheThatCanFillTheRedisOfTheJobsIsWorthAWarning(settings: [String]) async throws {
        try await QueueFixture.run(.init(settings: settings)) { (fixture) async throws in
            let shared = try await finding("control Redis: maxmemory-policy", examine(fixture))
            #expect(shared.level == .warning && shared.message.contains("--cache-redis"), "\(shared)")
            try await RedisServerProcess.run { (server) async throws in
                let cache = server.client()
                defer { cache.close() }
                let apart = try await finding("control Redis: maxmemory-policy", examine(fixture, cache: cache))
                #expect(apart.level == .ok)
            }
        }
    }

    /// Fault: the Redis of a further shard that is also one of the cache was checked as a cache alone.
    @Test func aServerOfAnyShardMustNotEvictJobs() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await RedisServerProcess.run(.init(settings: ["maxmemory-policy allkeys-lru"])) {
                (server) async throws in
                let second = server.client()
                defer { second.close() }
                let shard = JobQueue(second, keys: QueueKeys(queue: fixture.keys.queue, shard: 1))
                let queue = ShardedQueue([fixture.queue, shard], layout: ShardLayout(count: 2, id: "a"))
                let all = await Doctor.examine(queue, caches: [fixture.redis, second], repair: false)
                #expect(try finding("control Redis: maxmemory-policy (shard 1)", all).level == .error)
                #expect(!all.contains { $0.subject.hasPrefix("cache Redis: role") }, "each server is looked at once")
            }
        }
    }

    /// Each server of the cache is looked at, under its address.
    @Test func everyServerOfTheCacheIsExamined() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await RedisServerProcess.run { (server) async throws in
                let missing = "\(server.directory.path)/none.sock"
                let clients = [server.client(), try RedisServerProcess.client(ofSocket: missing)]
                defer { for client in clients { client.close() } }
                let doctor = Doctor(control: fixture.redis, caches: clients, keys: fixture.keys)
                let all = await doctor.examine()
                #expect(findings("cache Redis: role (\(server.url))", all).map(\.level) == [.ok])
                #expect(findings("cache Redis (unix://\(missing))", all).map(\.level) == [.error])
            }
        }
    }

    /// Fault: a second name of the control Redis counted as a cache of its own, and two names of one cache as two.
    @Test func serversWithSeveralNamesAreRecognized() async throws {
        let ports = (try FreePort.find(), try FreePort.find())
        let options = RedisServerProcess.Options(settings: ["maxmemory 1gb"], port: ports.0)
        try await QueueFixture.run(options) { (fixture) async throws in
            try await RedisServerProcess.run(.init(port: ports.1)) { (server) async throws in
                func client(_ url: String) throws -> RedisClient {
                    RedisClient(
                        try RedisConfiguration(url: url),
                        role: "test",
                        group: MultiThreadedEventLoopGroup.singleton,
                        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
                    )
                }
                let clients = [
                    try client("redis://127.0.0.1:\(ports.0)"), server.client(),
                    try client("redis://127.0.0.1:\(ports.1)"),
                ]
                defer { for client in clients { client.close() } }
                let second = await examine(fixture, cache: clients[0])
                let policy = try finding("control Redis: maxmemory-policy", second)
                #expect(policy.level == .warning && policy.message.contains("--cache-redis"), "\(policy)")
                #expect(findings("cache Redis: role", second).isEmpty, "it is looked at once")
                #expect(findings("cache Redis: names", second).isEmpty)
                let doctor = Doctor(control: fixture.redis, caches: Array(clients[1...]), keys: fixture.keys)
                let names = try await finding("cache Redis: names", doctor.examine())
                #expect(names.level == .error && names.message.contains("redis://127.0.0.1:\(ports.1)"), "\(names)")
                #expect(names.message.contains(server.url))
                let two = Doctor(control: fixture.redis, caches: Array(clients[0...1]), keys: fixture.keys)
                #expect(await findings("cache Redis: names", two.examine()).isEmpty)
            }
        }
    }

    @Test func jobsThatReachNoDiskAreWorthAWarning() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let off = try await finding("control Redis: persistence", examine(fixture))
            #expect(off.level == .warning && off.message.contains("appendonly is off"))
        }
        try await QueueFixture.run(.init(settings: ["appendonly yes", "appendfsync no"])) { (fixture) async throws in
            let late = try await finding("control Redis: persistence", examine(fixture))
            #expect(late.level == .warning && late.message.contains("everysec"))
        }
    }

    @Test func aControlRedisThatIsNearlyFullIsWorthAWarning() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let info = try await fixture.redis.send(["INFO", "memory"]).string ?? ""
            let limit = InfoReply.number("used_memory", in: info) * 10 / 9
            try await fixture.redis.send(["CONFIG", "SET", "maxmemory", .int(limit)])
            let memory = try await finding("control Redis: memory", examine(fixture))
            #expect(memory.level == .warning && memory.message.contains("refuses new jobs"))
        }
    }

    @Test func aCacheHasNeedsOfItsOwn() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await RedisServerProcess.run { (server) async throws in
                let cache = server.client()
                defer { cache.close() }
                var all = await examine(fixture, cache: cache)
                #expect(try finding("cache Redis: maxmemory-policy", all).level == .warning)
                #expect(try finding("cache Redis: memory", all).level == .warning, "it has no limit")
                #expect(try finding("cache Redis: persistence", all).level == .ok, "a cache may forget")
                #expect(try finding("clocks", all).level == .ok)
                try await cache.send(["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
                try await cache.send(["CONFIG", "SET", "maxmemory", "1500000"])
                all = await examine(fixture, cache: cache)
                #expect(try finding("cache Redis: memory", all).level == .ok, "a full cache is a good cache")
            }
        }
    }

    @Test func aCacheThatIsAwayIsOneError() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let gone = try await RedisServerProcess.start()
            await gone.stop()
            let cache = try RedisServerProcess.client(ofSocket: gone.socket)
            defer { cache.close() }
            let all = await examine(fixture, cache: cache)
            #expect(all.filter { $0.level == .error }.map(\.subject) == ["cache Redis"])
            #expect(try finding("audit", all).level == .ok, "the queue is looked at all the same")
        }
    }

    @Test func aReplicaIsNoControlRedis() async throws {
        try await QueueFixture.run { (fixture) async throws in
            // The connection is established already; only now the server becomes a replica, of a master that does not
            // exist.
            try await fixture.redis.send(["REPLICAOF", "127.0.0.1", "1"])
            let role = try await finding("control Redis: role", examine(fixture))
            #expect(role.level == .error && role.message.contains("not a master"))
        }
    }

    @Test func clocksThatDisagreeAreWorthAWarning() {
        #expect(Doctor.clock(.control, ahead: 0.9).level == .ok)
        let behind = Doctor.clock(.control, ahead: -3.25)
        #expect(behind.level == .warning && behind.message.hasPrefix("3.2 s behind this machine's clock"))
        #expect(Doctor.clocks(-0.5).level == .ok)
        #expect(Doctor.clocks(2).level == .warning)
    }

    @Test func allScriptsAreLoaded() async throws {
        let all = QueueScripts.all + HostScripts.all + FlightScripts.all
        let written = Repository.files("Sources/MegatonCluster").filter {
            $0.hasSuffix(".lua") && !$0.hasSuffix("Prelude.lua")
        }
        #expect(all.count == written.count, "a file is missing in `all` of its enumeration")
        #expect(Set(all.map(\.digest)).count == all.count)
        try await QueueFixture.run { (fixture) async throws in
            let scripts = try await finding("control Redis: scripts", examine(fixture))
            #expect(scripts.level == .ok && scripts.message == "all \(all.count) load")
        }
    }

    // MARK: - The queue

    @Test func aPausedQueueIsWorthAWarning() async throws {
        try await QueueFixture.run { (fixture) async throws in
            #expect(try await finding("pauses", examine(fixture)).level == .ok)
            try await fixture.queue.set(.paused, to: true)
            let paused = try await finding("pauses", examine(fixture))
            #expect(paused.level == .warning && paused.message.contains("megaton queue resume"))
            try await fixture.queue.set(.drain, to: true)
            #expect(await findings("pauses", examine(fixture)).count == 2)
            for mode in JobQueue.PauseMode.allCases { try await fixture.queue.set(mode, to: false) }
            #expect(try await finding("pauses", examine(fixture)).level == .ok)
        }
    }

    @Test func theDeadAreCounted() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(Data("{".utf8))
            try await fixture.admit()
            let dead = try await finding("dead jobs", examine(fixture))
            #expect(dead.level == .warning && dead.message.contains("megaton dead list"))
        }
    }

    @Test func batchesThatCouldNotCountAreWorthAWarning() async throws {
        try await QueueFixture.run { (fixture) async throws in
            #expect(try await finding("damaged batches", examine(fixture)).level == .ok)
            try await fixture.push(QueueFixture.job("a", batch: "b"))
            try await fixture.redis.send(["SET", .string(fixture.keys.batch("b")), "no hash"])
            try await fixture.admit()
            let damaged = try await finding("damaged batches", examine(fixture))
            #expect(damaged.level == .warning && damaged.message.hasPrefix("1 job "))
            #expect(damaged.message.contains("HDEL \(fixture.keys.stat) damaged_batch_ends"))
        }
    }

    /// Fault: the leader passed over a public list of another type, and nothing reported it.
    @Test func keysOfAnotherTypeAreNamed() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"), QueueFixture.job("b"))
            try await fixture.admit()
            let job = try #require(try await fixture.claim().first)
            _ = try await fixture.finish(job, .failed)
            #expect(try await finding("key types", examine(fixture)).level == .ok)
            let (intake, ready) = (fixture.keys.jobs(.bulk), fixture.keys.ready(.normal))
            try await fixture.redis.send(["SADD", .string(intake), "job"])
            try await fixture.redis.send(["DEL", .string(ready)])
            try await fixture.redis.send(["SET", .string(ready), "no list"])
            let found = await findings("key types", examine(fixture))
            #expect(found.count == 2 && found.allSatisfy { $0.level == .error }, "\(found)")
            for (key, type) in [(intake, "set"), (ready, "string")] {
                let finding = try #require(found.first { $0.message.hasPrefix("\(key) is of the type \(type) ") })
                #expect(finding.message.contains("must be of the type list"))
                #expect(finding.message.contains("RENAME \(key) ") && finding.message.contains("DEL \(key)"))
            }
            #expect(found.contains { $0.message.contains("none can be pushed") && $0.message.hasPrefix(intake) })
        }
    }

    /// Fault: the doctor passed over a batch's key, and `megaton batch list` ended with the bare WRONGTYPE of Redis.
    @Test func aDamagedBatchIsNamedAndHidesNoOther() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a", batch: "sound"), QueueFixture.job("b", batch: "hit"))
            try await fixture.admit()
            let key = fixture.keys.batch("hit")
            try await fixture.redis.send(["DEL", .string(key)])
            try await fixture.redis.send(["SADD", .string(key), "x"])
            let finding = try finding("key types", await examine(fixture))
            #expect(finding.level == .error && finding.message.hasPrefix("\(key) is of the type set "), "\(finding)")
            #expect(finding.message.contains("must be of the type hash") && finding.message.contains("cannot be shown"))
            let batches = try await fixture.queue.batches(limit: 10)
            #expect(batches.map(\.name).sorted() == ["hit", "sound"])
            #expect(batches.compactMap(\.damagedKey) == [key])
            #expect(batches.first { $0.name == "sound" }?.counters["total"] == 1)
        }
    }

    @Test func silentWorkersAreNotThere() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let workers = RedisArgument.string(fixture.keys.workers)
            let seconds = try await fixture.redis.send(["TIME"]).array?.first?.int ?? 0
            try await fixture.redis.send(["ZADD", workers, .int((seconds - 60) * 1000), "gone"])
            try await fixture.redis.send(["ZADD", workers, .int(seconds * 1000), "here"])
            let all = await examine(fixture)
            #expect(try finding("workers", all).message == "1 is running")
            let silent = try finding("silent workers", all).message
            #expect(
                silent.hasPrefix("1 worker has missed three heartbeats") && silent.contains("hangs: gone. Its jobs")
            )
            try await fixture.redis.send(["ZREM", workers, "here"])
            #expect(try await finding("workers", examine(fixture)).message.hasPrefix("no worker is running"))
        }
    }

    @Test func hostsWithAnOpenCircuitAreNamed() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let rate = RedisArgument.string(fixture.keys.rate)
            // The circuit was open once, and is closed again; see `hostPrelude.lua` for the fields.
            try await fixture.redis.send(["HSET", rate, "fine.example:443", "0 0 1.000000 0 12 1 0 200000"])
            #expect(try await finding("hosts", examine(fixture)).level == .ok)
            for number in 10..<22 {
                let state: RedisArgument = "0 0 1.000000 0 12 9999999999999 0 200000"
                try await fixture.redis.send(["HSET", rate, .string("h\(number).example:443"), state])
            }
            let hosts = try await finding("hosts", examine(fixture))
            #expect(hosts.level == .warning && !hosts.message.contains("fine.example"))
            #expect(hosts.message.contains("h10.example:443") && hosts.message.contains("h19.example:443"))
            #expect(!hosts.message.contains("h20.example") && hosts.message.contains("and 2 more"))
        }
    }

    @Test func faultsAreAnErrorUntilTheyAreMended() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admit()
            try await fixture.redis.send(["DEL", .string(fixture.keys.ready(.normal))])
            let found = try await finding("audit", examine(fixture))
            #expect(found.level == .error && found.message.hasPrefix("1 fault (1 orphan) in"), "\(found.message)")
            #expect(found.message.contains("a: it has a body and a meta"))
            #expect(found.message.contains("megaton doctor --repair"))
            let mended = try await finding("audit", examine(fixture, repair: true))
            #expect(mended.level == .warning && mended.message.contains("All were repaired"), "\(mended.message)")
            #expect(try await finding("audit", examine(fixture)).level == .ok)
            #expect(try await fixture.claim().map(\.id) == ["a"])
        }
    }
}
