import Foundation
import Logging
public import MegatonRedis
import NIOCore
import NIOPosix

/// A real master and its replica, with three real sentinels that watch them (quorum 2, name `megaton`).
///
/// Where the network is to be split, the others call the master through a proxy and from an address of their own
/// (`bind-source-addr`), by which the proxy tells them from clients.
public final class SentinelTrio: Sendable {
    /// What a test asks of the servers.
    public struct Options: Sendable {
        /// On all, since each may be the master. With 1 and all others dead, it takes no writes.
        public var minReplicasToWrite: Int
        /// Seconds for which a replica that is silent still counts for `minReplicasToWrite`.
        public var minReplicasMaxLag: Int
        /// Further lines of redis.conf, for all.
        public var settings: [String]
        /// Whether the network can be split (``SentinelTrio/split(_:)``). There is a second replica then, which stays
        /// one: on its side of the network the first could not have a replica else, and with `minReplicasToWrite` it
        /// would take no writes when it is the master.
        public var isSplittable: Bool

        public init(
            minReplicasToWrite: Int = 0,
            minReplicasMaxLag: Int = 10,
            settings: [String] = [],
            isSplittable: Bool = false
        ) {
            self.minReplicasToWrite = minReplicasToWrite
            self.minReplicasMaxLag = minReplicasMaxLag
            self.settings = settings
            self.isSplittable = isSplittable
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
    /// From which the replicas and the sentinels call in a network that can be split.
    private static let farAddress = "127.0.0.2"

    /// Of the server that began as the master.
    public let masterPort: Int
    /// Of the server that began as the replica.
    public let replicaPort: Int
    /// Of the sentinels.
    public let sentinelPorts: [Int]
    private let directory: TestDirectory
    /// The one that began as the master first.
    private let servers: [ProgramUnderTest]
    private let sentinels: [ProgramUnderTest]
    /// Before the server that began as the master, where the network can be split.
    private let proxy: FaultProxy?

    /// Starts all and waits until the replica is in sync and the sentinels know everybody.
    public static func start(_ options: Options = Options()) async throws -> SentinelTrio {
        let ports = try Ports(options)
        let proxy: FaultProxy? =
            try await options.isSplittable ? FaultProxy.start(to: .tcp(host: "127.0.0.1", port: ports.master)) : nil
        do {
            return try await start(options, ports, proxy)
        } catch {
            proxy?.stop()
            throw error
        }
    }

    private static func start(_ options: Options, _ ports: Ports, _ proxy: FaultProxy?) async throws -> SentinelTrio {
        let directory = try TestDirectory()
        let servers = try startServers(options, ports, proxy, directory)
        let probe = makeClient(ports.master)
        defer { probe.close() }
        try await waitForReplicas(ports, options, probe, servers)
        // Not before: a sentinel asks the master for its replicas at first contact, and then every 10 s.
        let sentinels = try ports.sentinels.indices.map { try sentinel($0, ports, proxy, directory) }
        for port in ports.sentinels { try await waitForSentinel(port, ports, probe, sentinels) }
        return SentinelTrio(ports, directory, servers, sentinels, proxy)
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
        _ ports: Ports,
        _ directory: TestDirectory,
        _ servers: [ProgramUnderTest],
        _ sentinels: [ProgramUnderTest],
        _ proxy: FaultProxy?
    ) {
        masterPort = ports.master
        replicaPort = ports.replicas[0]
        sentinelPorts = ports.sentinels
        self.directory = directory
        self.servers = servers
        self.sentinels = sentinels
        self.proxy = proxy
    }

    /// The sentinels' addresses and the master's name.
    public var url: String {
        "redis-sentinel://" + sentinelPorts.map { "127.0.0.1:\($0)" }.joined(separator: ",") + "/megaton"
    }

    /// A client straight to one of them, whatever its role; the test closes it.
    public func client(port: Int) -> RedisClient { Self.makeClient(port) }

    /// SIGKILL to the server that began as the master.
    public func killMaster() { servers[0].send(SIGKILL) }

    /// SIGSTOP to the server that began as the master: its connections stay open and silent.
    public func stopMaster() { servers[0].send(SIGSTOP) }

    /// SIGCONT to the server that began as the master: it comes back, and takes itself for the master at first.
    public func continueMaster() { servers[0].send(SIGCONT) }

    /// Splits the network, or makes it whole again: the server that began as the master is alone on one side, its
    /// replicas and the sentinels are on the other, and clients reach both.
    ///
    /// - Precondition: ``Options/isSplittable``.
    public func split(_ isOn: Bool) {
        guard let proxy else {
            preconditionFailure("Only a trio whose options say isSplittable has a network that can be split.")
        }
        proxy.split(from: isOn ? Self.farAddress : nil)
    }

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
        let processes = sentinels + servers.reversed()
        for process in processes { process.send(SIGKILL) }
        for process in processes { _ = await process.ending() }
        proxy?.stop()
        directory.remove()
    }
}

// MARK: - Starting

extension SentinelTrio {
    /// Who listens where.
    private struct Ports {
        let master: Int
        /// The one that takes over first.
        let replicas: [Int]
        let sentinels: [Int]

        init(_ options: Options) throws {
            let ports = try SentinelTrio.freePorts(options.isSplittable ? 6 : 5)
            master = ports[0]
            sentinels = Array(ports[1..<4])
            replicas = Array(ports[4...])
        }
    }

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

    /// The master first.
    private static func startServers(
        _ options: Options,
        _ ports: Ports,
        _ proxy: FaultProxy?,
        _ directory: TestDirectory
    ) throws -> [ProgramUnderTest] {
        // A replica tells its master where it is, and sentinels hear it from there: 127.0.0.1 for all, where each of
        // them listens, and the proxy's port for the one behind it, lest they know a way around the split.
        let near = proxy.map { ["replica-announce-ip 127.0.0.1", "replica-announce-port \($0.port)"] } ?? []
        // Protected mode knows no loopback address but 127.0.0.1.
        let far = [
            "bind-source-addr \(farAddress)", "protected-mode no", "replica-announce-ip 127.0.0.1",
        ]
        var servers = [try server("master", ports.master, options, directory, near)]
        for (index, port) in ports.replicas.enumerated() {
            // The lowest takes over.
            let lines = [
                "replicaof 127.0.0.1 \(proxy?.port ?? ports.master)", "replica-priority \(100 * (index + 1))",
            ]
            let all = proxy == nil ? lines : lines + far
            servers.append(try server("replica-\(index)", port, options, directory, all))
        }
        return servers
    }

    private static func server(
        _ name: String,
        _ port: Int,
        _ options: Options,
        _ directory: TestDirectory,
        _ lines: [String]
    ) throws -> ProgramUnderTest {
        let common = [
            "port \(port)", "save \"\"", "appendonly yes", "repl-diskless-sync-delay 0",
            "min-replicas-to-write \(options.minReplicasToWrite)",
            "min-replicas-max-lag \(options.minReplicasMaxLag)",
        ]
        return try launch(name, common + lines + options.settings, directory)
    }

    private static func sentinel(
        _ index: Int,
        _ ports: Ports,
        _ proxy: FaultProxy?,
        _ directory: TestDirectory
    ) throws -> ProgramUnderTest {
        var lines = [
            "port \(ports.sentinels[index])",
            "sentinel monitor megaton 127.0.0.1 \(proxy?.port ?? ports.master) 2",
            "sentinel down-after-milliseconds megaton 1000",
            "sentinel failover-timeout megaton 5000",
            "sentinel parallel-syncs megaton 1",
        ]
        // Else it tells the others the address from which it calls, where it does not listen.
        if proxy != nil { lines += ["bind-source-addr \(farAddress)", "sentinel announce-ip 127.0.0.1"] }
        return try launch("sentinel-\(index)", lines, directory, arguments: ["--sentinel"])
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

    private static func waitForReplicas(
        _ ports: Ports,
        _ options: Options,
        _ master: RedisClient,
        _ processes: [ProgramUnderTest]
    ) async throws {
        for port in ports.replicas {
            let replica = makeClient(port)
            defer { replica.close() }
            try await wait("a replica in sync", master, processes) {
                let link = try await replica.send(["INFO", "replication"]).string ?? ""
                return link.contains("master_link_status:up")
            }
        }
        let count = ports.replicas.count
        try await wait("a master that knows its replicas", master, processes) {
            let state = try await master.send(["INFO", "replication"]).string ?? ""
            let online = state.split(whereSeparator: \.isNewline).count { $0.contains("state=online") }
            // The line is there only with min-replicas-to-write.
            return online == count
                && (options.minReplicasToWrite == 0 || state.contains("min_slaves_good_slaves:\(count)"))
        }
    }

    private static func waitForSentinel(
        _ port: Int,
        _ ports: Ports,
        _ master: RedisClient,
        _ processes: [ProgramUnderTest]
    ) async throws {
        let sentinel = makeClient(port)
        defer { sentinel.close() }
        try await wait("a sentinel that knows everybody", master, processes) {
            let quorum = try await sentinel.send(["SENTINEL", "CKQUORUM", "megaton"]).string ?? ""
            let replicas = try await sentinel.send(["SENTINEL", "REPLICAS", "megaton"]).array ?? []
            let known = replicas.map(\.dictionary)
            return quorum.hasPrefix("OK 3") && known.count == ports.replicas.count
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
