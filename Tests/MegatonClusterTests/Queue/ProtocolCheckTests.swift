import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import ServiceLifecycle
import Testing

@testable import MegatonCluster

/// Processes beside those of another protocol. The keys of protocol 1 are written as Megaton 0.1 writes them.
@Suite(.timeLimit(.minutes(2))) struct ProtocolCheckTests {
    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// A queue that no process has used.
    private func run(_ body: (JobQueue, RedisServerProcess) async throws -> Void) async throws {
        try await RedisServerProcess.run { server in
            let redis = server.client()
            defer { redis.close() }
            try await body(JobQueue(redis, keys: QueueKeys(queue: "test")), server)
        }
    }

    private func check(_ queue: JobQueue) -> ProtocolCheck { ProtocolCheck(queue: queue, logger: Self.logger) }

    /// The message with which a start is refused; nil if it is not.
    private func refusal(_ queue: JobQueue) async throws -> String? {
        do throws(RedisError) {
            try await check(queue).start()
            return nil
        } catch {
            guard error.code == .incompatibleVersion else { throw error }
            return error.message
        }
    }

    /// A worker of 0.1, whose last heartbeat was this many milliseconds ago.
    private func addFormerWorker(_ queue: JobQueue, silent: Int = 0) async throws {
        let beat = try await queue.now() - silent
        try await queue.redis.send(["ZADD", "megaton:{test}:workers", .int(beat), "old:1:a"])
        let info = #"{"concurrency":4,"host":"old","pid":1,"renewal":5,"started":1763900000,"version":"0.1.0"}"#
        try await queue.redis.send(["HSET", "megaton:{test}:workerinfo", "old:1:a", .string("0 \(info)")])
    }

    // MARK: - Processes and jobs of protocol 1

    /// Parts of a queue of 0.1.
    enum Part: CaseIterable {
        case leader, fallback, worker, admitted, staged, waiting
    }

    private func add(_ part: Part, _ queue: JobQueue) async throws {
        let redis = queue.redis
        let json = #"{"id":"a","source":"https://example.org/a.jpg"}"#
        switch part {
        case .leader: try await redis.send(["SET", "megaton:{test}:leader", "old:1:a", "PX", "60000"])
        case .fallback: try await redis.send(["SET", "megaton:{test}:leader", "reserve:old:1:a", "PX", "60000"])
        case .worker: try await addFormerWorker(queue)
        case .admitted:
            try await redis.send(["HSET", "megaton:{test}:body", "a", .string(json)])
            try await redis.send(["HSET", "megaton:{test}:meta", "a", "0|0||2|"])
            try await redis.send(["LPUSH", "megaton:{test}:ready:normal", "a"])
        case .staged:
            try await redis.send(["SADD", "megaton:{test}:stages", "3"])
            try await redis.send(["RPUSH", "megaton:{test}:stage:3", .string("b\0" + json)])
        case .waiting:
            try await redis.send(["ZADD", "megaton:{test}:intakes", "1", "b"])
            try await redis.send(["LPUSH", "megaton:{test}:jobs:b", .string(json)])
        }
    }

    @Test(arguments: Part.allCases) func protocol1IsRefusedAndItsKeysStay(part: Part) async throws {
        try await run { (queue, _) async throws in
            try await add(part, queue)
            let before = try await queue.former()
            let message = try #require(try await refusal(queue))
            #expect(message.contains("megaton queue drain --wait") && message.contains("megaton:{test}:jobs"))
            #expect(message.contains("batch wait") == (part == .waiting), "\(message)")
            #expect(try await queue.former() == before && !before.isEmpty)
            #expect(try await queue.redis.send(["EXISTS", .string(queue.keys.protocolRange)]).int == 0)
        }
    }

    @Test func aDrainedQueueOf01IsTakenOver() async throws {
        try await run { (queue, _) async throws in
            // A worker that was killed, an intake that is empty, a public job, a dead letter and a drained queue.
            try await addFormerWorker(queue, silent: 16_000)
            try await queue.redis.send(["ZADD", "megaton:{test}:intakes", "1", "b"])
            try await queue.redis.send(["LPUSH", "megaton:{test}:jobs", "{}"])
            try await queue.redis.send(["ZADD", "megaton:{test}:dead", "1", "d"])
            try await queue.redis.send(["HSET", "megaton:{test}:control", "drain", "1"])
            #expect(try await refusal(queue) == nil)
            #expect(try await queue.redis.send(["GET", "megaton:{test}:protocol"]).string == "2-2")
            #expect(try await queue.redis.send(["LLEN", .string(queue.keys.jobs)]).int == 1, "the job is public")
        }
    }

    /// A client of 0.1 must not keep the workers of a running fleet from starting again.
    @Test func besideLivingProcessesOfThisProtocolAProcessStarts() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for part in [Part.worker, .admitted, .waiting] { try await add(part, fixture.queue) }
            #expect(try await refusal(fixture.queue) == nil, "a leader")
            try await fixture.leadership.resign()
            #expect(try await refusal(fixture.queue) != nil)
            let info = WorkerInfo(concurrency: 1).json
            _ = try await fixture.queue.renew([], worker: "w", lease: .seconds(60), info: info, timeout: .seconds(5))
            #expect(try await refusal(fixture.queue) == nil, "a worker")
        }
    }

    @Test func aKeyOfAnotherTypeHoldsNothing() async throws {
        try await run { (queue, _) async throws in
            for name in ["workers", "body", "stages", "intakes"] {
                try await queue.redis.send(["SET", .string("megaton:{test}:\(name)"), "x"])
            }
            #expect(try await refusal(queue) == nil)
        }
    }

    @Test func eachServiceIsRefused() async throws {
        try await run { (queue, server) async throws in
            try await add(.leader, queue)
            var worker = Worker.Configuration(control: server.configuration)
            worker.keys = queue.keys
            var coordinator = Coordinator.Configuration()
            coordinator.keys = queue.keys
            let services: [any Service] = [
                try Worker(worker, logger: Self.logger, onHungRender: {}),
                Coordinator(coordinator, redis: server.configuration, logger: Self.logger),
            ]
            for service in services {
                await #expect { try await service.run() } throws: {
                    ($0 as? RedisError)?.code == .incompatibleVersion
                }
            }
            #expect(try await queue.redis.send(["EXISTS", .string(queue.keys.leader)]).int == 0)
            #expect(try await queue.redis.send(["EXISTS", .string(queue.keys.workers)]).int == 0)
        }
    }

    // MARK: - The lead

    /// A coordinator of 0.1 leads only if the key is missing, has its own name, or one that begins with `reserve:`.
    @Test(arguments: [false, true]) func theLeaderHoldsTheLeaseOfProtocol1(isFallback: Bool) async throws {
        try await run { (queue, _) async throws in
            let leader = Leadership(queue: queue, name: "new", lease: .seconds(60), isFallback: isFallback)
            #expect(try await leader.tryToLead() == 1)
            let holder = try await queue.redis.send(["GET", "megaton:{test}:leader"]).string ?? ""
            #expect(holder.hasPrefix("protocol-2:") && holder.hasSuffix("new"))
            try await queue.redis.send(["PEXPIRE", "megaton:{test}:leader", "1000"])
            #expect(try await leader.tryToLead() == 1)
            // Longer than its own, so that a successor of this protocol is faster than a coordinator of 0.1.
            #expect(try await queue.redis.send(["PTTL", "megaton:{test}:leader"]).int ?? 0 > 120_000, "renewed")
            try await leader.resign()
            let left = try await queue.redis.send(["EXISTS", "megaton:{test}:leader", .string(queue.keys.leader)]).int
            #expect(left == 1, "the lease of protocol 1 expires by itself")
            let next = Leadership(queue: queue, name: "next", lease: .seconds(60))
            #expect(try await next.tryToLead() == 2)
            #expect(try await queue.redis.send(["GET", "megaton:{test}:leader"]).string == "protocol-2:next")
        }
    }

    @Test(arguments: ["old:1:a", "reserve:old:1:a"]) func besideALeaderOf01NoOtherLeads(former: String) async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"))
            // Redis has lost its data, and a coordinator of 0.1 was faster.
            try await fixture.redis.send(["SET", "megaton:{test}:leader", .string(former), "PX", "5000"])
            #expect(try await fixture.leadership.tryToLead() == nil)
            try await fixture.redis.send(["DEL", .string(fixture.keys.leader)])
            guard case .waits(let wait) = try await fixture.leadership.attempt() else {
                Issue.record("it leads")
                return
            }
            #expect(wait > .zero && wait <= .seconds(5))
            await #expect { try await fixture.admit() } throws: { "\($0)".contains("NOTLEADER") }
            try await fixture.redis.send(["DEL", "megaton:{test}:leader"])
            #expect(try await fixture.leadership.tryToLead() != nil)
        }
    }

    // MARK: - The range

    @Test(arguments: [
        ("2-2", true), ("1-2", true), ("2-9", true), ("3-4", false), ("1-1", false), ("3-1", false), ("", false),
        ("x", false), ("2", false), ("2-", false), ("2-3-4", false),
    ]) func aRangeIsSpokenIfItContainsThisProtocol(range: String, isSpoken: Bool) async throws {
        try await run { (queue, _) async throws in
            try await queue.redis.send(["SET", .string(queue.keys.protocolRange), .string(range)])
            let message = try await refusal(queue)
            #expect((message == nil) == isSpoken, "\(message ?? "")")
            if let message { #expect(message.contains("megaton:{test}:protocol")) }
            #expect(try await queue.redis.send(["GET", .string(queue.keys.protocolRange)]).string == range)
        }
    }

    @Test func aProcessEndsIfItsQueueChanges() async throws {
        try await run { (queue, _) async throws in
            try await check(queue).start()
            async let end = check(queue).run(every: .milliseconds(5), reportsFormer: true)
            // A queue that has lost its data has a protocol again.
            try await queue.redis.send(["DEL", .string(queue.keys.protocolRange)])
            while try await queue.redis.send(["GET", .string(queue.keys.protocolRange)]).string != "2-2" {
                await Task.yield()
            }
            try await queue.redis.send(["SET", .string(queue.keys.protocolRange), "3-3"])
            #expect(await end?.code == .incompatibleVersion)
        }
    }

    // MARK: - Status and doctor

    @Test func statusAndDoctorShowAMixOfVersions() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let inspector = Inspector(queue: fixture.queue, cache: fixture.redis)
            let doctor = Doctor(control: fixture.redis, caches: [fixture.redis], keys: fixture.keys)
            var info = WorkerInfo(concurrency: 1)
            _ = try await fixture.queue.renew(
                [],
                worker: "w1",
                lease: .seconds(60),
                info: info.json,
                timeout: .seconds(5)
            )
            var status = try await inspector.status()
            #expect(status.coordinators.map(\.name) == ["leader"])
            #expect(status.workers.map(\.version) == [Megaton.version])
            #expect(status.versions == ["\(Megaton.version), protocol 2": 2] && status.versionWarnings.isEmpty)
            #expect(await doctor.examine().filter { $0.subject == "versions" }.map(\.level) == [.ok])
            info.version = "9.0.0"
            _ = try await fixture.queue.renew(
                [],
                worker: "w2",
                lease: .seconds(60),
                info: info.json,
                timeout: .seconds(5)
            )
            try await addFormerWorker(fixture.queue)
            status = try await inspector.status()
            #expect(status.versions.count == 2 && status.versionWarnings.count == 2)
            #expect(status.versionWarnings.first?.contains("9.0.0, protocol 2 (1 process)") == true)
            #expect(status.versionWarnings.last?.contains("old:1:a") == true)
            #expect(await doctor.examine().filter { $0.subject == "versions" }.map(\.level) == [.warning, .warning])
            try await fixture.leadership.resign()
            #expect(try await inspector.status().coordinators.isEmpty)
        }
    }
}
