import Foundation
import Logging
public import MegatonRedis
import NIOCore
import NIOPosix

/// A real master and its replica, with three real sentinels that watch them (quorum 2, name `megaton`).
public final class SentinelTrio: Sendable {
    /// What a test asks of the two servers.
    public struct Options: Sendable {
        /// On both, since either may be the master. With 1 and one of them dead, the other takes no writes.
        public var minReplicasToWrite: Int
        /// Further lines of redis.conf, for both.
        public var settings: [String]

        public init(minReplicasToWrite: Int = 0, settings: [String] = []) {
            self.minReplicasToWrite = minReplicasToWrite
            self.settings = settings
        }
    }

    /// Something did not come about in its time.
    public struct NotReached: Error {
        /// What was waited for.
        public let what: String
    }

    private enum Event: Sendable {
        case subscribed, switched
    }

    /// Rounds of 100 ms that a wait takes at most.
    private static let rounds = 300

    /// Of the server that began as the master.
    public let masterPort: Int
    /// Of the server that began as the replica.
    public let replicaPort: Int
    /// Of the sentinels.
    public let sentinelPorts: [Int]
    private let directory: TestDirectory
    private let master: ProgramUnderTest
    private let replica: ProgramUnderTest
    private let sentinels: [ProgramUnderTest]

    /// Starts all and waits until the replica is in sync and the sentinels know everybody.
    public static func start(_ options: Options = Options()) async throws -> SentinelTrio {
        let directory = try TestDirectory()
        let ports = try freePorts(5)
        let master = try server("master", ports[0], options, directory, replicaOf: nil)
        let replica = try server("replica", ports[1], options, directory, replicaOf: ports[0])
        let probe = makeClient(ports[0])
        defer { probe.close() }
        try await waitForReplica(ports, options, probe, [master, replica])
        // Not before: a sentinel asks the master for its replicas at first contact, and then every 10 s.
        let sentinels = try (2..<5).map { try sentinel($0, ports, directory) }
        let trio = SentinelTrio(ports, directory, master, replica, sentinels)
        for port in trio.sentinelPorts { try await waitForSentinel(port, probe, sentinels) }
        return trio
    }

    /// Starts them, runs the body, and ends them.
    public static func run<Value>(
        _ options: Options = Options(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (SentinelTrio) async throws -> Value
    ) async throws -> Value {
        let trio = try await start(options)
        do {
            let value = try await body(trio)
            await trio.stop()
            return value
        } catch {
            await trio.stop()
            throw error
        }
    }

    private init(
        _ ports: [Int],
        _ directory: TestDirectory,
        _ master: ProgramUnderTest,
        _ replica: ProgramUnderTest,
        _ sentinels: [ProgramUnderTest]
    ) {
        masterPort = ports[0]
        replicaPort = ports[1]
        sentinelPorts = Array(ports[2...])
        self.directory = directory
        self.master = master
        self.replica = replica
        self.sentinels = sentinels
    }

    /// The sentinels' addresses and the master's name.
    public var url: String {
        "redis-sentinel://" + sentinelPorts.map { "127.0.0.1:\($0)" }.joined(separator: ",") + "/megaton"
    }

    /// A client of one of the five, whatever its role; the test closes it.
    public func client(port: Int) -> RedisClient { Self.makeClient(port) }

    /// SIGKILL to the server that began as the master.
    public func killMaster() { master.send(SIGKILL) }

    /// SIGSTOP to the server that began as the master: its connections stay open and silent.
    public func stopMaster() { master.send(SIGSTOP) }

    /// SIGCONT to the server that began as the master: it comes back, and takes itself for the master at first.
    public func continueMaster() { master.send(SIGCONT) }

    /// Runs an action, and returns when the first sentinel has told a switch that came after the subscription.
    ///
    /// The other sentinels learn of it within their next exchange (2 s).
    ///
    /// - Throws: what the action throws; `NotReached` after 60 s.
    public func switched(
        isolation: isolated (any Actor)? = #isolation,
        after action: () async throws -> Void
    ) async throws {
        let (events, continuation) = AsyncStream.makeStream(of: Event.self)
        let subscriber = RedisSubscriber(
            Self.configuration(sentinelPorts[0]),
            channels: ["+switch-master"],
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            onSubscribed: { continuation.yield(.subscribed) },
            onMessage: { _, _ in continuation.yield(.switched) }
        )
        // Unstructured, so that the action runs in the caller's isolation; cancelled when this returns.
        let listening = Task { await subscriber.run() }
        defer { listening.cancel() }
        let alarm = MultiThreadedEventLoopGroup.singleton.next().scheduleTask(in: .seconds(60)) {
            continuation.finish()
        }
        defer { alarm.cancel() }
        var isActed = false
        for await event in events {
            switch event {
            case .subscribed where !isActed:
                isActed = true
                try await action()
            case .switched where isActed: return
            case .subscribed, .switched: break
            }
        }
        throw NotReached(what: "+switch-master")
    }

    /// Ends all of them and waits for their ends.
    public func stop() async {
        let processes = sentinels + [replica, master]
        for process in processes { process.send(SIGKILL) }
        for process in processes { _ = await process.ending() }
        directory.remove()
    }
}

// MARK: - Starting

extension SentinelTrio {
    private static func freePorts(_ count: Int) throws -> [Int] {
        var ports: [Int] = []
        // The kernel may offer the same one twice, since nobody has it yet.
        for _ in 0..<100 where ports.count < count {
            let port = try FreePort.find()
            if !ports.contains(port) { ports.append(port) }
        }
        guard ports.count == count else { throw NotReached(what: "\(count) free ports") }
        return ports
    }

    /// Each with a file of its own, which a sentinel's CONFIG REWRITE changes.
    private static func launch(
        _ name: String,
        _ lines: [String],
        _ directory: TestDirectory,
        arguments: [String] = []
    ) throws -> ProgramUnderTest {
        let folder = "\(directory.path)/\(name)"
        let common = ["bind 127.0.0.1", "dir \(folder)", "daemonize no", "logfile \(folder)/redis.log"]
        let text = (common + lines).joined(separator: "\n") + "\n"
        let file = try directory.write(Data(text.utf8), to: "\(name)/redis.conf")
        return try ProgramUnderTest(program: "/usr/bin/redis-server", arguments: [file] + arguments)
    }

    private static func server(
        _ name: String,
        _ port: Int,
        _ options: Options,
        _ directory: TestDirectory,
        replicaOf master: Int?
    ) throws -> ProgramUnderTest {
        var lines = ["port \(port)", "save \"\"", "appendonly yes", "repl-diskless-sync-delay 0"]
        lines.append("min-replicas-to-write \(options.minReplicasToWrite)")
        if let master { lines.append("replicaof 127.0.0.1 \(master)") }
        return try launch(name, lines + options.settings, directory)
    }

    private static func sentinel(_ index: Int, _ ports: [Int], _ directory: TestDirectory) throws -> ProgramUnderTest {
        let lines = [
            "port \(ports[index])",
            "sentinel monitor megaton 127.0.0.1 \(ports[0]) 2",
            "sentinel down-after-milliseconds megaton 1000",
            "sentinel failover-timeout megaton 5000",
            "sentinel parallel-syncs megaton 1",
        ]
        return try launch("sentinel-\(index - 2)", lines, directory, arguments: ["--sentinel"])
    }

    /// For a server of any role.
    private static func configuration(_ port: Int) -> RedisConfiguration {
        var configuration = RedisConfiguration(address: .tcp(host: "127.0.0.1", port: port))
        configuration.requiresMaster = false
        return configuration
    }

    private static func makeClient(_ port: Int) -> RedisClient {
        RedisClient(
            configuration(port),
            role: "test",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    private static func waitForReplica(
        _ ports: [Int],
        _ options: Options,
        _ master: RedisClient,
        _ processes: [ProgramUnderTest]
    ) async throws {
        let replica = makeClient(ports[1])
        defer { replica.close() }
        try await wait("a replica in sync", master, processes) {
            let link = try await replica.send(["INFO", "replication"]).string ?? ""
            guard link.contains("master_link_status:up") else { return false }
            let state = try await master.send(["INFO", "replication"]).string ?? ""
            // The second line is there only with min-replicas-to-write.
            return state.contains("state=online")
                && (options.minReplicasToWrite == 0 || state.contains("min_slaves_good_slaves:1"))
        }
    }

    private static func waitForSentinel(
        _ port: Int,
        _ master: RedisClient,
        _ processes: [ProgramUnderTest]
    ) async throws {
        let sentinel = makeClient(port)
        defer { sentinel.close() }
        try await wait("a sentinel that knows everybody", master, processes) {
            let quorum = try await sentinel.send(["SENTINEL", "CKQUORUM", "megaton"]).string ?? ""
            let replicas = try await sentinel.send(["SENTINEL", "REPLICAS", "megaton"]).array ?? []
            let known = replicas.map(\.dictionary)
            return quorum.hasPrefix("OK 3") && known.count == 1
                && known.allSatisfy { $0["flags"] == "slave" && $0["master-link-status"] == "ok" }
        }
    }

    /// Asks every 100 ms until a condition holds. An error that it throws counts as "not yet".
    private static func wait(
        _ what: String,
        _ master: RedisClient,
        _ processes: [ProgramUnderTest],
        until condition: () async throws -> Bool
    ) async throws {
        for _ in 0..<rounds {
            if let isTrue = try? await condition(), isTrue { return }
            for process in processes where !process.isRunning {
                throw NotReached(what: "\(what): a process has ended: \(process.output)\(process.errors)")
            }
            // A read that blocks is the pause: unlike BLPOP it is allowed where too few replicas are there.
            try await master.send(["XREAD", "BLOCK", "100", "STREAMS", "megaton:pause", "$"], timeout: .seconds(10))
        }
        throw NotReached(what: what)
    }
}
