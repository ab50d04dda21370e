import MegatonTestSupport
import Testing

@testable import MegatonRedis

/// Minutes of faults; `./scripts/test --all` runs them.
@Suite(.enabled(if: LongTests.areOn, "takes minutes; ./scripts/test --all runs it"), .timeLimit(.minutes(10)))
struct RedisClusterLongTests {
    /// Writers append numbers to lists, each list from one writer, while slots move to and fro and a master is killed.
    /// At the end each list is strictly ascending: nothing was executed twice or out of order.
    @Test func nothingIsExecutedTwiceWhileSlotsMoveAndMastersDie() async throws {
        try await RedisClusterProcesses.run(settings: ["min-replicas-to-write 0"]) { (cluster) async throws in
            let client = try cluster.client()
            defer { client.close() }
            let isOver = Switch()
            let lists = (0..<24).map { "{tag\($0 % 8)}list:\($0)" }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for list in lists {
                    group.addTask {
                        var number = 0
                        while !isOver.isSet {
                            number += 1
                            do throws(RedisError) {
                                _ = try await client.pipeline([
                                    ["RPUSH", .string(list), .int(number)], ["LTRIM", .string(list), "-5000", "-1"],
                                ])
                            } catch {
                                #expect(error.isTransient, "\(error)")
                            }
                        }
                    }
                }
                for round in 0..<12 {
                    let slot = HashSlot.of("tag\(round % 8)")
                    let migration = try await cluster.beginMigration(ofSlot: slot)
                    try await client.send(["GET", "{tag\(round % 8)}none"])
                    try await cluster.finish(migration)
                }
                // Its replica takes over.
                await cluster.kill(port: try await cluster.master(ofSlot: HashSlot.of("tag0")))
                #expect(try await client.sendToMasters(["PING"]).count == 3, "it waits for the replica")
                try await client.send(["SET", "{tag0}alive", "1"], timeout: .seconds(60))
                isOver.set()
                try await group.waitForAll()
            }
            for list in lists {
                let numbers =
                    try await client.send(["LRANGE", .string(list), "0", "-1"]).array?.compactMap(\.int) ?? []
                #expect(!numbers.isEmpty)
                #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 }, "\(list)")
            }
        }
    }

    /// A node without the others accepts no command. One that may wait on the server fails like all others.
    @Test func aBlockingCommandEndsAlthoughTheClusterStaysDown() async throws {
        try await RedisClusterProcesses.run { (cluster) async throws in
            let client = try cluster.client()
            defer { client.close() }
            try await client.send(["RPUSH", "other", "1"])
            let survivor = try await cluster.master(ofSlot: HashSlot.of("list"))
            for port in cluster.ports where port != survivor { await cluster.kill(port: port) }
            let node = cluster.client(port: survivor)
            defer { node.close() }
            while (try? await node.send(["LLEN", "list"])) != nil { await Task.yield() }
            await #expect {
                try await client.send(["BLPOP", "list", "1"], timeout: .seconds(3))
            } throws: { error in
                (error as? RedisError)?.code == .busy
            }
        }
    }

    @Test(.enabled(if: !RedisPrograms.usesValkey, "Valkey from PyPI has no TLS"))
    func speaksTLSToAllNodes() async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let certificates = try await TestCertificates.make(in: directory)
        let tls = RedisClusterProcesses.TLS(certificates, try await certificates.sign("node"))
        try await RedisClusterProcesses.run(tls: tls) { (cluster) async throws in
            let client = try cluster.client()
            defer { client.close() }
            let names = (0..<100).map { "k\($0)" }
            _ = try await client.pipeline(names.map { ["SET", .string($0), .string($0)] })
            #expect(try await client.pipeline(names.map { ["GET", .string($0)] }).map(\.string) == names)
            #expect(try await client.sendToMasters(["PING"]).count == 3)
        }
    }

    /// redis-cli moves hundreds of slots with their keys while clients read and write all of them.
    @Test func clientsWorkOnWhileTheClusterIsResharded() async throws {
        try await RedisClusterProcesses.run { (cluster) async throws in
            let client = try cluster.client(commandTimeout: .seconds(60))
            defer { client.close() }
            let names = (0..<2000).map { "key:\($0)" }
            _ = try await client.pipeline(names.map { ["SET", .string($0), .string($0)] })
            let source = try await cluster.master(ofSlot: 0)
            let target = try await cluster.master(ofSlot: 16_383)
            let ids = try await [source, target].asyncMap {
                try await cluster.send(["CLUSTER", "MYID"], port: $0).string ?? ""
            }
            let reshard = try ProgramUnderTest(
                program: RedisPrograms.client,
                arguments: [
                    "--cluster", "reshard", "127.0.0.1:\(source)", "--cluster-from", ids[0], "--cluster-to", ids[1],
                    "--cluster-slots", "1500", "--cluster-yes",
                ]
            )
            var rounds = 0
            while reshard.isRunning || rounds < 3 {
                let replies = try await client.pipeline(names.map { ["GET", .string($0)] })
                #expect(replies.map(\.string) == names)
                _ = try await client.pipeline(names.map { ["SET", .string($0), .string($0)] })
                rounds += 1
            }
            let ending = await reshard.ending()
            #expect(ending.code == 0, "\(ending.output)\(ending.errors)")
            #expect(try await cluster.master(ofSlot: 0) == target)
            #expect(try await client.pipeline(names.map { ["GET", .string($0)] }).map(\.string) == names)
        }
    }
}

extension Array {
    fileprivate func asyncMap<Value>(_ body: (Element) async throws -> Value) async rethrows -> [Value] {
        var values: [Value] = []
        for element in self { values.append(try await body(element)) }
        return values
    }
}
