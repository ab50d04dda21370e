import Foundation
import Logging
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonRedis

/// The client against a real Redis Cluster of six nodes.
@Suite(.timeLimit(.minutes(2))) struct RedisClusterTests {
    /// Adds up a key and its arguments; several keys must share a slot.
    private static let sum = RedisScript(
        name: "sum",
        source:
            "return tonumber(ARGV[1]) + redis.call('INCR', KEYS[1]) + (KEYS[2] and redis.call('INCR', KEYS[2]) or 0)"
    )

    /// Attempts of concurrent commands, and their errors.
    private actor Record {
        private(set) var attempts: [String: Int] = [:]
        private(set) var codes: Set<RedisError.Code> = []

        func attempt(_ name: String) { attempts[name, default: 0] += 1 }

        func fail(_ error: RedisError) { codes.insert(error.code) }
    }

    /// Errors after which it is unknown whether a command was executed, or that pass by themselves.
    private static let expectedErrors: Set<RedisError.Code> = [
        .connectionClosed, .timeout, .unreachable, .busy, .notWritable,
    ]

    /// Starting a cluster takes seconds, so that all that needs no fault shares one.
    @Test func oneClientUsesAllNodes() async throws {
        try await RedisClusterProcesses.run { (cluster) async throws in
            let client = try cluster.client()
            defer { client.close() }
            try await client.connect()
            try await joinsRepliesInOrder(client, cluster)
            try await runsScriptsOnEachNode(client, cluster)
            try await keepsTransactionsTogether(client)
            try await scansAllMasters(client)
            #expect(try await client.sendToMasters(["DBSIZE"]).reduce(0) { $0 + ($1.reply.int ?? 0) } > 300)
            #expect(try await client.sendToMasters(["PING"]).compactMap(\.node).count == 3)
            try await wakesBlockingCommands(client, cluster)
            try await hearsMessagesOfOtherNodes(client, cluster)
            try await namesTheRightURL(cluster)
            try await followsASlotThatMoves(client, cluster)
        }
    }

    private func joinsRepliesInOrder(_ client: RedisClient, _ cluster: RedisClusterProcesses) async throws {
        let names = (0..<300).map { "order:\($0)" }
        let stored = try await client.pipeline(names.map { ["SET", .string($0), .string($0)] })
        #expect(stored.allSatisfy { $0 == .status("OK") })
        // Errors stay at their places, too.
        let replies = try await client.pipeline(
            names.map { ["GET", .string($0)] } + [["INCR", "order:7"], ["TIME"], ["ECHO", "end"]]
        )
        #expect(replies.prefix(300).map(\.string) == names)
        #expect(replies[300] == .error("ERR value is not an integer or out of range"))
        #expect(replies[301].array?.count == 2 && replies[302].string == "end")
        var sizes: [Int] = []
        for port in cluster.ports.prefix(3) { sizes.append(try await cluster.send(["DBSIZE"], port: port).int ?? 0) }
        #expect(sizes.allSatisfy { $0 > 0 } && sizes.reduce(0, +) == 300, "\(sizes)")
        await #expect {
            _ = try await client.pipeline([["GET", "order:1"], ["UNLINK", "order:1", "order:2"]])
        } throws: { error in
            (error as? RedisError)?.code == .crossSlot
        }
    }

    private func runsScriptsOnEachNode(_ client: RedisClient, _ cluster: RedisClusterProcesses) async throws {
        for _ in 0..<2 {
            // The second time, after each node has forgotten the script.
            for port in cluster.ports { try await cluster.send(["SCRIPT", "FLUSH"], port: port) }
            _ = try await client.pipeline((0..<30).map { ["UNLINK", "sum:\($0)"] })
            let replies = try await client.run(
                Self.sum,
                after: [["GET", "order:5"]],
                calls: (0..<30).map { (keys: ["sum:\($0)"], arguments: [.int($0)]) }
            )
            #expect(replies.commands.first?.string == "order:5")
            #expect(replies.calls.map(\.int) == (0..<30).map { $0 + 1 })
        }
        await #expect {
            try await client.run(Self.sum, keys: ["sum:1", "sum:2"], arguments: ["1"])
        } throws: { error in
            (error as? RedisError)?.code == .crossSlot && (error as? RedisError)?.message.contains("\"sum:2\"") == true
        }
    }

    private func keepsTransactionsTogether(_ client: RedisClient) async throws {
        let commands: [RedisCommand] = (0..<10).flatMap { number -> [RedisCommand] in
            [["MULTI"], ["HSET", "{tx\(number)}a", "f", .int(number)], ["HGET", "{tx\(number)}a", "f"], ["EXEC"]]
        }
        let replies = try await client.pipeline(commands)
        #expect(replies.count == 40)
        for number in 0..<10 { #expect(replies[number * 4 + 3].array?.last?.int == number) }
    }

    private func scansAllMasters(_ client: RedisClient) async throws {
        var (cursor, found, rounds) = ("0", Set<String>(), 0)
        repeat {
            let reply = try await client.send(["SCAN", .string(cursor), "MATCH", "order:*", "COUNT", "20"]).array ?? []
            cursor = reply.first?.string ?? "0"
            found.formUnion(reply.last?.array?.compactMap(\.string) ?? [])
            rounds += 1
        } while cursor != "0" && rounds < 1000
        #expect(found == Set((0..<300).map { "order:\($0)" }))
        await #expect {
            try await client.send(["SCAN", "7@127.0.0.1:1"])
        } throws: { error in
            (error as? RedisError)?.code == .busy
        }
    }

    private func wakesBlockingCommands(_ client: RedisClient, _ cluster: RedisClusterProcesses) async throws {
        let other = try cluster.client()
        defer { other.close() }
        for number in 0..<6 {
            async let popped = other.send(["BLPOP", "list:\(number)", "30"], timeout: .seconds(32))
            try await client.send(["RPUSH", "list:\(number)", .int(number)])
            #expect(try await popped.array?.last?.int == number)
        }
    }

    private func hearsMessagesOfOtherNodes(_ client: RedisClient, _ cluster: RedisClusterProcesses) async throws {
        let (events, continuation) = AsyncStream.makeStream(of: String.self)
        let subscriptions = ChannelSubscriptions(
            client.configuration,
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            onSubscribed: { _ in continuation.yield("subscribed") },
            onMessage: { continuation.yield("\($0): \($1)") }
        )
        _ = subscriptions.subscribe(to: "b")
        let listening = Task { await subscriptions.run() }  // Cancelled below.
        var iterator = events.makeAsyncIterator()
        #expect(await iterator.next() == "subscribed")
        for port in cluster.ports {
            try await cluster.send(["PUBLISH", "b", .int(port)], port: port)
            #expect(await iterator.next() == "b: \(port)")
        }
        listening.cancel()
        await listening.value
    }

    private func namesTheRightURL(_ cluster: RedisClusterProcesses) async throws {
        let plain = RedisClient(
            try RedisConfiguration(url: "redis://127.0.0.1:\(cluster.ports[0])"),
            role: "test",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
        defer { plain.close() }
        await #expect { try await plain.connect(waiting: .seconds(3600)) } throws: { error in
            let error = error as? RedisError
            return error?.code == .invalidConfiguration && error?.message.contains("redis+cluster://") == true
        }
    }

    /// The steps of a migration one by one: keys that are still here, keys that are there already, keys of both.
    private func followsASlotThatMoves(_ client: RedisClient, _ cluster: RedisClusterProcesses) async throws {
        let slot = HashSlot.of("mv")
        _ = try await client.pipeline([["SET", "{mv}1", "one"], ["SET", "{mv}2", "two"], ["SET", "{mv}3", "3"]])
        for port in cluster.ports { try await cluster.send(["SCRIPT", "FLUSH"], port: port) }
        let migration = try await cluster.beginMigration(ofSlot: slot)
        #expect(try await client.send(["GET", "{mv}1"]).string == "one")
        #expect(try await client.send(["GET", "{mv}new"]) == .null, "ASK: a key that is not here may be there")
        try await cluster.move(["{mv}1", "{mv}3"], of: migration)
        let replies = try await client.pipeline([["GET", "{mv}1"], ["GET", "{mv}2"], ["GET", "{mv}1"]])
        #expect(replies.map(\.string) == ["one", "two", "one"])
        // The script is unknown at the other node as well.
        #expect(try await client.run(Self.sum, keys: ["{mv}3"], arguments: ["1"]).int == 5)
        let many = try await client.pipeline([["MULTI"], ["SET", "{mv}1", "uno"], ["GET", "{mv}1"], ["EXEC"]])
        #expect(many.last?.array?.last?.string == "uno", "\(many)")
        // TRYAGAIN until the keys are together again.
        async let both = client.send(["MGET", "{mv}1", "{mv}2"])
        let impatient = try cluster.client(waitsForReconnect: false)
        defer { impatient.close() }
        let refused = try await impatient.pipeline([["MGET", "{mv}1", "{mv}2"]])
        if case .error(let text) = refused.first {
            #expect(text.hasPrefix("TRYAGAIN"))
        } else {
            Issue.record("the keys are at two nodes, and yet: \(refused)")
        }
        try await cluster.finish(migration)
        #expect(try await both.array?.map(\.string) == ["uno", "two"])
        #expect(try await client.send(["GET", "{mv}2"]).string == "two")
    }

    /// Commands run on all the time while a master is killed: those that it does not execute fail with a typed error,
    /// and all succeed again after its replica has taken over.
    @Test func commandsSucceedAgainAfterAFailover() async throws {
        try await RedisClusterProcesses.run { (cluster) async throws in
            let client = try cluster.client()
            defer { client.close() }
            let impatient = try cluster.client(waitsForReconnect: false, commandTimeout: .seconds(1))
            defer { impatient.close() }
            let names = (0..<30).map { "k\($0)" }
            _ = try await client.pipeline(names.map { ["SET", .string($0), "0"] })
            #expect(try await impatient.send(["GET", "k0"]).string == "0")
            let slot = HashSlot.of("k0")
            let victim = try await cluster.master(ofSlot: slot)
            let record = Record()
            let isOver = Switch()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for name in names {
                    group.addTask {
                        while !isOver.isSet {
                            await record.attempt(name)
                            do throws(RedisError) {
                                try await client.send(["INCR", .string(name)])
                            } catch {
                                await record.fail(error)
                            }
                        }
                    }
                }
                await cluster.kill(port: victim)
                // One that does not wait is answered at once, whatever the answer is.
                let start = ContinuousClock.now
                for _ in 0..<100 {
                    do throws(RedisError) {
                        try await impatient.send(["GET", "k0"])
                    } catch {
                        await record.fail(error)
                    }
                }
                #expect(ContinuousClock.now - start < .seconds(30))
                try await client.send(["INCR", "k0"], timeout: .seconds(60))
                await record.attempt("k0")
                isOver.set()
                try await group.waitForAll()
            }
            let codes = await record.codes
            #expect(codes.isSubset(of: Self.expectedErrors), "\(codes)")
            #expect(try await cluster.master(ofSlot: slot) != victim)
            let replies = try await client.pipeline(names.map { ["INCR", .string($0)] })
            #expect(replies.allSatisfy { $0.int != nil }, "\(replies)")
            // No command is executed twice: replication may lose some, but no counter is too high.
            for (name, reply) in zip(names, replies) {
                let attempts = await record.attempts[name] ?? 0
                #expect(reply.int ?? 0 <= attempts + 1, "\(name)")
            }
            while (try? await impatient.send(["GET", "k0"])) == nil, !Task.isCancelled { await Task.yield() }
        }
    }

    /// Fault: an error of the greeting failed the call, although no command was sent. A scan did not wait at all.
    @Test func commandsAndScansWaitForTheSuccessorOfANodeThatHangs() async throws {
        try await RedisClusterProcesses.run { (cluster) async throws in
            let names = (0..<30).map { "k\($0)" }
            let earlier = try cluster.client()
            defer { earlier.close() }
            _ = try await earlier.pipeline(names.map { ["SET", .string($0), "0"] })
            _ = try await earlier.sendToMasters(["WAIT", "1", "5000"])
            let client = try cluster.client(commandTimeout: .seconds(60))
            defer { client.close() }
            // It knows the topology, and has no connection to the node yet.
            let victim = try await cluster.master(ofSlot: HashSlot.of("k0"))
            for name in names {
                if try await cluster.master(ofSlot: HashSlot.of(name)) == victim { continue }
                try await client.send(["GET", .string(name)])
                break
            }
            cluster.pause(port: victim)
            async let counted = client.pipeline(names.map { ["INCR", .string($0)] })
            async let found = scan(client)
            #expect(try await counted.map(\.int) == names.map { _ in 1 }, "each was executed once")
            #expect(try await found.isSuperset(of: names))
        }
    }

    /// Begins again if the node of the scan is no longer a master.
    private func scan(_ client: RedisClient) async throws -> Set<String> {
        var (cursor, found) = ("0", Set<String>())
        while true {
            do throws(RedisError) {
                let reply = try await client.send(["SCAN", .string(cursor), "COUNT", "20"]).array ?? []
                cursor = reply.first?.string ?? "0"
                found.formUnion(reply.last?.array?.compactMap(\.string) ?? [])
                if cursor == "0" { return found }
            } catch {
                guard error.endsScan, !Task.isCancelled else { throw error }
                cursor = "0"
            }
        }
    }

    @Test func aClientThatFailsFastDoesNotWaitForACluster() async throws {
        let port = try FreePort.find()
        let client = RedisClient(
            try RedisConfiguration(url: "redis+cluster://127.0.0.1:\(port)"),
            role: "test",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
        defer { client.close() }
        await #expect { try await client.connect() } throws: { error in
            let error = error as? RedisError
            return error?.code == .unreachable && error?.message.contains("127.0.0.1:\(port)") == true
        }
        client.failFast()
        await #expect { try await client.send(["GET", "k"], timeout: .seconds(3600)) } throws: {
            ($0 as? RedisError)?.code == .unreachable
        }
        client.close()
        await #expect { try await client.send(["GET", "k"]) } throws: { ($0 as? RedisError)?.code == .closed }
    }

    @Test func aServerThatIsNoClusterIsRefused() async throws {
        let port = try FreePort.find()
        try await RedisServerProcess.run(.init(port: port)) { (_) async throws in
            let client = RedisClient(
                try RedisConfiguration(url: "redis+cluster://127.0.0.1:\(port)"),
                role: "test",
                group: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
            defer { client.close() }
            await #expect { try await client.connect(waiting: .seconds(3600)) } throws: { error in
                let error = error as? RedisError
                return error?.code == .invalidConfiguration && error?.message.contains("redis://127.0.0.1") == true
            }
        }
    }
}
