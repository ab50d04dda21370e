import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster

/// Changes of the number of shards, on real Redis servers.
@Suite(.timeLimit(.minutes(2))) struct ReshardingTests {
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private let group = MultiThreadedEventLoopGroup.singleton

    /// A queue on some servers, with a connection to each of its possible shards.
    private struct Setup: Sendable {
        let address: QueueAddress
        let shards: [JobQueue]

        var resharding: Resharding { Resharding(address) { shards[$0] } }

        func copies() async throws -> [String?] {
            var copies: [String?] = []
            for shard in shards { copies.append(try await shard.layout()) }
            return copies
        }
    }

    private func withQueue(_ servers: [RedisConfiguration], _ body: (Setup) async throws -> Void) async throws {
        let address = QueueAddress(servers, queue: "q")
        let shards = (0..<4).map { address.shard($0, role: "test", group: group, logger: logger) }
        defer { for shard in shards { shard.close() } }
        try await body(Setup(address: address, shards: shards))
    }

    private func open(_ address: QueueAddress) async throws -> ShardedQueue {
        try await ShardedQueue.open(address, role: "test", group: group, logger: logger)
    }

    private func expectMismatch(_ part: String, _ body: () async throws -> Void) async {
        await #expect { try await body() } throws: { error in
            guard let error = error as? RedisError else { return false }
            return error.code == .shardMismatch && error.message.contains(part)
        }
    }

    @Test func aQueueThatWasNeverDividedHasNoKey() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withQueue([server.configuration]) { (setup) async throws in
                let queue = try await open(setup.address)
                defer { queue.close() }
                #expect(!queue.isDivided)
                try await queue.checkLayout()
                #expect(try await setup.resharding.change(to: 1) == 1)
                #expect(try await setup.shards[0].redis.send(["DBSIZE"]).int == 0)
            }
        }
    }

    @Test func shardsAreAddedAndFound() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withQueue([server.configuration]) { (setup) async throws in
                let before = try await open(setup.address)
                defer { before.close() }
                #expect(try await setup.resharding.change(to: 3) == 1)
                let copies = try await setup.copies()
                #expect(copies.map { $0?.prefix(3) } == ["0/3", "1/3", "2/3", nil])
                let queue = try await open(setup.address)
                defer { queue.close() }
                #expect(queue.shards.map(\.keys.shard) == [0, 1, 2])
                await expectMismatch("from 1 to 3") { try await before.checkLayout() }
                #expect(try await setup.resharding.change(to: 3) == 3, "nothing is left to do")
                #expect(try await setup.copies() == copies)
                #expect(try await setup.resharding.change(to: 1) == 3, "the others are empty")
                await expectMismatch("from 3 to 1") { try await queue.checkLayout() }
                let last = try await open(setup.address)
                defer { last.close() }
                #expect(!last.isDivided)
                #expect(try await setup.resharding.change(to: 4) == 1, "shards that were removed can be added again")
            }
        }
    }

    @Test func aShardWithWorkIsNotRemoved() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withQueue([server.configuration]) { (setup) async throws in
                _ = try await setup.resharding.change(to: 2)
                let copies = try await setup.copies()
                let shard = setup.shards[1]
                // Each state in which a shard has something to lose.
                let works: [(RedisCommand, part: String)] = [
                    (["LPUSH", .string(shard.keys.jobs), "{}"], "1 job that has not ended"),
                    (["HSET", .string(shard.keys.body), "a", "{}"], "1 job that has not ended"),
                    (["ZADD", .string(shard.keys.dead), "1", "a"], "1 dead job"),
                    (["HSET", .string(shard.keys.stat), "outcome_bytes", "7"], "no reader"),
                    (["HSET", .string(shard.keys.webhooks), "1", "text"], "1 outcome for webhooks"),
                ]
                for (command, part) in works {
                    try await shard.redis.send(command)
                    await expectMismatch(part) { _ = try await setup.resharding.change(to: 1) }
                    #expect(try await setup.copies() == copies, "the queue is as before")
                    try await shard.redis.send(["DEL", command.arguments[1]])
                }
                _ = try await shard.submit([], to: "b", first: 0, isLast: false, policy: .init(), submitter: "me")
                await expectMismatch("1 batch that has not ended") { _ = try await setup.resharding.change(to: 1) }
                try await shard.close(batch: "b")
                #expect(try await setup.resharding.change(to: 1) == 2)
            }
        }
    }

    /// Faults: a process started with half of the shards; a change that died could not be finished.
    @Test func aChangeThatDiedIsFinishedOrUndone() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withQueue([server.configuration]) { (setup) async throws in
                let redis = setup.shards[0].redis
                for count in [4, 2] {
                    _ = try await setup.resharding.change(to: 2)
                    // It died after it had written one of two copies.
                    let old = try #require(ShardLayout.parse(try await setup.shards[0].layout() ?? "")).layout
                    var changing = old
                    changing.target = ShardLayout.Target(count: 4, id: "next")
                    try await redis.send(["SET", .string(setup.shards[0].keys.layout), .string(changing.text(of: 0))])
                    let copy = ShardLayout(count: 4, id: "next").text(of: 1)
                    try await redis.send(["SET", .string(setup.shards[1].keys.layout), .string(copy)])
                    await expectMismatch("megaton queue reshard 4") { try await open(setup.address).close() }
                    #expect(try await setup.resharding.change(to: count) == 2)
                    let queue = try await open(setup.address)
                    #expect(queue.shards.count == count)
                    queue.close()
                }
            }
        }
    }

    @Test func serversInAnotherOrderAreRefused() async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                let (a, b) = (first.configuration, second.configuration)
                try await withQueue([a, b]) { (setup) async throws in
                    await expectMismatch("2 servers are named") { try await open(setup.address).close() }
                    _ = try await setup.resharding.change(to: 2)
                    let queue = try await open(setup.address)
                    defer { queue.close() }
                    #expect(queue.shards.map(\.redis.configuration) == [a, b])
                    await expectMismatch("Name the servers") { try await open(QueueAddress([a], queue: "q")).close() }
                    let swapped = QueueAddress([b, a], queue: "q")
                    await expectMismatch("name it first") { try await open(swapped).close() }
                    await expectMismatch("name it first") {
                        _ = try await Resharding(swapped) { number in
                            JobQueue(setup.shards[1 - number].redis, keys: swapped.keys(number))
                        }.change(to: 2)
                    }
                    await expectMismatch("on 2 servers, and one is named") {
                        _ = try await Resharding(QueueAddress([a], queue: "q")) { number in
                            JobQueue(setup.shards[0].redis, keys: QueueKeys(queue: "q", shard: number))
                        }.change(to: 3)
                    }
                    try await queue.checkLayout()
                }
            }
        }
    }

    /// Fault: the jobs of a shard that was added to a paused queue ran.
    @Test func aShardThatIsAddedIsPausedAsTheQueueIs() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withQueue([server.configuration]) { (setup) async throws in
                func field(_ number: Int, _ name: String) async throws -> String? {
                    let shard = setup.shards[number]
                    return try await shard.redis.send(["HGET", .string(shard.keys.control), .string(name)]).string
                }
                try await setup.shards[0].set(.paused, to: true)
                // From a time in which it was a shard before.
                try await setup.shards[2].set(.drain, to: true)
                _ = try await setup.resharding.change(to: 3)
                for number in 1...2 {
                    #expect(try await field(number, "paused") == "1")
                    #expect(try await field(number, "drain") != "1")
                }
                #expect(try await field(3, "paused") == nil)
            }
        }
    }

    @Test func aShardThatLostItsDataGetsItsCopyBack() async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                try await withQueue([first.configuration, second.configuration]) { (setup) async throws in
                    _ = try await setup.resharding.change(to: 2)
                    let queue = try await open(setup.address)
                    defer { queue.close() }
                    let copies = try await setup.copies()
                    for server in [setup.shards[0], setup.shards[1]] {
                        try await server.redis.send(["FLUSHALL"])
                        try await queue.checkLayout()
                        #expect(try await setup.copies() == copies)
                    }
                    // Without a process that knows the layout.
                    try await setup.shards[0].redis.send(["FLUSHALL"])
                    await expectMismatch("reshard 2 --accept-loss") { try await open(setup.address).close() }
                    await expectMismatch("--accept-loss") { _ = try await setup.resharding.change(to: 2) }
                    _ = try await setup.resharding.change(to: 2, acceptsLoss: true)
                    try await open(setup.address).close()
                }
            }
        }
    }

    /// Fault: shards of a queue that had lost shard 0 were forgotten with their jobs.
    @Test func aLossIsRepairedWithTheNumberThatWasLost() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withQueue([server.configuration]) { (setup) async throws in
                _ = try await setup.resharding.change(to: 3)
                try await setup.shards[2].redis.send(["LPUSH", .string(setup.shards[2].keys.jobs), "{}"])
                try await setup.shards[0].redis.send(["DEL", .string(setup.shards[0].keys.layout)])
                let copies = try await setup.copies()
                for count in [1, 2, 4] {
                    await expectMismatch("reshard 3 --accept-loss") {
                        _ = try await setup.resharding.change(to: count, acceptsLoss: true)
                    }
                    #expect(try await setup.copies() == copies)
                }
                #expect(try await setup.resharding.change(to: 3, acceptsLoss: true) == 3)
                let queue = try await open(setup.address)
                #expect(queue.shards.count == 3)
                queue.close()
            }
        }
    }

    /// Fault: of two commands at the same time, the one that was refused undid the change of the other, or each wrote
    /// some of the copies.
    @Test func twoChangesAtTheSameTimeLeaveOneLayout() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withQueue([server.configuration]) { (setup) async throws in
                for _ in 0..<20 {
                    await withTaskGroup(of: Void.self) { group in
                        for count in [2, 3, 4] {
                            group.addTask {
                                do {
                                    _ = try await setup.resharding.change(to: count)
                                } catch {
                                    #expect((error as? RedisError)?.code == .shardMismatch, "\(error)")
                                }
                            }
                        }
                    }
                    // One that met another may have to be run again.
                    let stored = try #require(ShardLayout.parse(try await setup.shards[0].layout() ?? "")).layout
                    _ = try await setup.resharding.change(to: stored.target?.count ?? stored.count)
                    let queue = try await open(setup.address)
                    try await queue.checkLayout()
                    queue.close()
                }
            }
        }
    }

    /// Fault: workers ended for a change that could not succeed, as a server did not answer.
    @Test func aChangeThatCannotSucceedIsNotAnnounced() async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                try await withQueue([first.configuration, second.configuration]) { (setup) async throws in
                    _ = try await setup.resharding.change(to: 2)
                    let copy = try await setup.shards[0].layout()
                    await second.crash()
                    await #expect { _ = try await setup.resharding.change(to: 3) } throws: {
                        ($0 as? RedisError)?.isTransient == true
                    }
                    #expect(try await setup.shards[0].layout() == copy)
                }
            }
        }
    }

    @Test func aCopyIsReplacedOnlyIfItIsTheOneThatWasRead() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let queue = fixture.queue
            #expect(try await !queue.changeLayout(from: "0/2 a", to: "0/3 b"))
            #expect(try await queue.changeLayout(from: nil, to: "0/2 a"))
            #expect(try await queue.changeLayout(from: nil, to: "0/2 a"), "a repeated call changes nothing")
            #expect(try await !queue.changeLayout(from: nil, to: "0/3 b"))
            #expect(try await queue.layout() == "0/2 a")
            #expect(try await !queue.changeLayout(from: "0/3 b", to: nil))
            #expect(try await queue.changeLayout(from: "0/2 a", to: nil))
            #expect(try await queue.layout() == nil)
        }
    }

    /// Fault: shards behind one that was away did not get their copies back, and did not report a change.
    @Test func aShardThatIsAwayHidesNoOther() async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                try await withQueue([first.configuration, second.configuration]) { (setup) async throws in
                    _ = try await setup.resharding.change(to: 2)
                    let queue = try await open(setup.address)
                    defer { queue.close() }
                    let copy = try await setup.shards[1].layout()
                    try await setup.shards[1].redis.send(["FLUSHALL"])
                    await first.crash()
                    queue.failFast()
                    await #expect { try await queue.checkLayout() } throws: { ($0 as? RedisError)?.isTransient == true }
                    #expect(try await setup.shards[1].layout() == copy)
                    try await setup.shards[1].redis.send(["SET", .string(setup.shards[1].keys.layout), "1/3 next"])
                    await expectMismatch("from 2 to 3") { try await queue.checkLayout() }
                }
            }
        }
    }

    /// Fault: a queue that was never divided did not start beside a divided one with the name of its shard 1.
    @Test func aDividedQueueWithTheNameOfAShardIsAnother() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withQueue([server.configuration]) { (setup) async throws in
                let other = QueueAddress([server.configuration], queue: "q:1")
                let shards = (0..<2).map { other.shard($0, role: "test", group: group, logger: logger) }
                defer { for shard in shards { shard.close() } }
                _ = try await Resharding(other) { shards[$0] }.change(to: 2)
                let queue = try await open(setup.address)
                #expect(!queue.isDivided)
                queue.close()
                await expectMismatch("is in use") { _ = try await setup.resharding.change(to: 2) }
            }
        }
    }

    /// The queue `q:1` has the keys of shard 1.
    @Test func aQueueWithTheNameOfAShardIsNotTaken() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withQueue([server.configuration]) { (setup) async throws in
                try await setup.shards[0].redis.send(["LPUSH", .string(QueueKeys(queue: "q:1").jobs), "{}"])
                await expectMismatch("as the queue \"q:1\"") { _ = try await setup.resharding.change(to: 2) }
                #expect(try await setup.copies() == [nil, nil, nil, nil])
                try await setup.shards[0].redis.send(["FLUSHALL"])
                _ = try await setup.resharding.change(to: 2)
                await expectMismatch("the name is that of a shard") {
                    try await open(QueueAddress([server.configuration], queue: "q:1")).close()
                }
            }
        }
    }

    /// Fault: a coordinator recorded its protocol at a server that is not one of the queue.
    @Test func aCoordinatorWritesNothingToAWrongServer() async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                try await RedisServerProcess.run { (wrong) async throws in
                    try await withQueue([first.configuration, second.configuration]) { (setup) async throws in
                        _ = try await setup.resharding.change(to: 2)
                        var configuration = Coordinator.Configuration()
                        configuration.keys = setup.address.keys(0)
                        configuration.furtherControls = [wrong.configuration]
                        let coordinator = Coordinator(
                            configuration,
                            redis: first.configuration,
                            group: group,
                            name: "leader",
                            logger: logger
                        )
                        defer { coordinator.close() }
                        await expectMismatch("Name the servers") { try await coordinator.start() }
                        let client = wrong.client()
                        defer { client.close() }
                        #expect(try await client.send(["DBSIZE"]).int == 0)
                    }
                }
            }
        }
    }

    /// Fault: a call during a change threw `invalid_configuration`, which no caller retries.
    @Test func aClientWaitsForTheEndOfAChange() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withQueue([server.configuration]) { (setup) async throws in
                _ = try await setup.resharding.change(to: 2)
                let (redis, key) = (setup.shards[0].redis, RedisArgument.string(setup.shards[0].keys.layout))
                var layout = try #require(ShardLayout.parse(try await setup.shards[0].layout() ?? "")).layout
                layout.target = ShardLayout.Target(count: 3, id: "next")
                try await redis.send(["SET", key, .string(layout.text(of: 0))])
                let client = try ClusterClient(redis: server.url, queue: "q", idleTimeout: .seconds(30), logger: logger)
                defer { client.close() }
                let monitor = try ProgramUnderTest(
                    program: RedisPrograms.client,
                    arguments: ["-s", server.socket, "monitor"]
                )
                defer { monitor.send(SIGTERM) }
                try await monitor.waitForOutput { $0.hasPrefix("OK") }
                // Safe without a parent: the test awaits it, and the client ends its waits when it is closed.
                let running = Task { try await client.batch("b").counters() }
                // The client reads the layout, and again.
                let look = "\"GET\" \"\(setup.shards[0].keys.layout)\""
                try await monitor.waitForOutput { $0.components(separatedBy: look).count > 2 }
                #expect(try await setup.resharding.change(to: 3) == 2)
                #expect(try await !running.value.isKnown)
                // A change that died ends the call after the idle time-out.
                var dead = try #require(ShardLayout.parse(try await setup.shards[0].layout() ?? "")).layout
                dead.target = ShardLayout.Target(count: 4, id: "other")
                try await redis.send(["SET", key, .string(dead.text(of: 0))])
                let hasty = try ClusterClient(redis: server.url, queue: "q", idleTimeout: .zero, logger: logger)
                defer { hasty.close() }
                await #expect { _ = try await hasty.batch("b").counters() } throws: {
                    "\($0)".contains("megaton queue reshard 4")
                }
            }
        }
    }

    /// Fault: a client looked at the layout before each question.
    @Test func aClientLooksAtTheLayoutOnceASecond() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withQueue([server.configuration]) { (setup) async throws in
                let client = try ClusterClient(redis: server.url, queue: "q", logger: logger)
                defer { client.close() }
                _ = try await client.batch("b").counters()
                let redis = setup.shards[0].redis
                try await redis.send(["CONFIG", "RESETSTAT"])
                let start = ContinuousClock.now
                for _ in 0..<10 { _ = try await client.batch("b").counters() }
                let seconds = Int(start.duration(to: .now) / .seconds(1))
                let info = try await redis.send(["INFO", "commandstats"]).string ?? ""
                let line = info.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_get:calls=") }
                let calls = line?.split(separator: ",").first?.split(separator: "=").last.flatMap { Int($0) } ?? 0
                #expect(calls <= seconds + 1, "\(info)")
            }
        }
    }

    /// Fault: shard 0 was not checked before the protocol was recorded there.
    @Test func aWrongServerOfShard0GetsNoKey() async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (wrong) async throws in
                try await withQueue([first.configuration]) { (setup) async throws in
                    _ = try await setup.resharding.change(to: 2)
                    var settings = Coordinator.Configuration()
                    settings.keys = setup.address.keys(0)
                    settings.furtherControls = [first.configuration]
                    let coordinator = Coordinator(
                        settings,
                        redis: wrong.configuration,
                        group: group,
                        name: "leader",
                        logger: logger
                    )
                    defer { coordinator.close() }
                    var configuration = Worker.Configuration(control: wrong.configuration)
                    configuration.keys = setup.address.keys(0)
                    configuration.furtherControls = [first.configuration]
                    let worker = try Worker(configuration, group: group, logger: logger, onHungRender: {})
                    await expectMismatch("has lost the layout") { try await coordinator.start() }
                    await expectMismatch("has lost the layout") { try await worker.start() }
                    await worker.close()
                    let client = wrong.client()
                    defer { client.close() }
                    #expect(try await client.send(["DBSIZE"]).int == 0)
                }
            }
        }
    }

    @Test func workersEndOneAfterTheOther() {
        #expect(ShardCheck.delay(workers: 1, random: 1) == .zero)
        #expect(ShardCheck.delay(workers: 0, random: 1) == .zero, "their Redis has lost its data")
        #expect(ShardCheck.delay(workers: 21, random: 0.5) == .seconds(1))
        #expect(ShardCheck.delay(workers: 5000, random: 1) == .seconds(30))
        #expect(ShardCheck.delay(workers: 5000, random: 0) == .zero)
    }

    @Test func onlyTheCopyOfShard0IsReadOften() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withQueue([server.configuration]) { (setup) async throws in
                _ = try await setup.resharding.change(to: 2)
                let queue = try await open(setup.address)
                defer { queue.close() }
                try await setup.shards[1].redis.send(["SET", .string(setup.shards[1].keys.layout), "1/3 next"])
                try await queue.checkLayout(onlyFirst: true)
                await expectMismatch("from 2 to 3") { try await queue.checkLayout() }
                let check = ShardCheck(queue: queue, logger: logger)
                #expect(await check.run(every: .milliseconds(1))?.code == .shardMismatch, "all are read in turn")
            }
        }
    }

    @Test func aProcessEndsWhenTheNumberChanges() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await withQueue([server.configuration]) { (setup) async throws in
                let queue = try await open(setup.address)
                defer { queue.close() }
                let check = ShardCheck(queue: queue, logger: logger)
                let running = Task { await check.run(every: .milliseconds(1)) }
                _ = try await setup.resharding.change(to: 2)
                #expect(await running.value?.code == .shardMismatch)
            }
        }
    }
}
