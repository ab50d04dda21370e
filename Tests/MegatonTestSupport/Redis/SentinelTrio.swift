import Foundation
import Logging
package import MegatonRedis
import NIOCore
import NIOPosix

/// A real master and its replica, with three real sentinels that watch them (quorum 2, name `megaton`).
///
/// If the network is to be split, the replicas and sentinels connect to the master through a proxy and from an address
/// of their own (`bind-source-addr`), by which the proxy distinguishes them from clients.
package final class SentinelTrio: Sendable {
    /// Settings of the servers.
    package struct Options: Sendable {
        /// Set on all servers, since each may become the master. With 1 and all others dead, a master accepts no
        /// writes.
        package var minReplicasToWrite: Int
        /// Seconds for which a silent replica still counts for `minReplicasToWrite`.
        package var minReplicasMaxLag: Int
        /// Further lines of redis.conf, for all servers.
        package var settings: [String]
        /// Whether the network can be split (``SentinelTrio/split(_:)``). If so, there is a second replica, which stays
        /// a replica: otherwise the first would have no replica on its side of the network, and with
        /// `minReplicasToWrite` it would accept no writes as the master.
        package var isSplittable: Bool

        package init(
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

    /// A condition did not hold in time.
    package struct NotReached: Error {
        /// Name of the condition.
        package let what: String
    }

    private enum Event: Sendable {
        case subscribed, switched
    }

    /// Maximum number of polls, 100 ms each.
    private static let rounds = 300
    /// Address from which replicas and sentinels connect if the network can be split.
    private static let farAddress = "127.0.0.2"

    /// Port of the server that was the master at the start.
    package let masterPort: Int
    /// Port of the server that was the replica at the start.
    package let replicaPort: Int
    /// Ports of the sentinels.
    package let sentinelPorts: [Int]
    private let directory: TestDirectory
    /// The servers; the first was the master at the start.
    private let servers: [ProgramUnderTest]
    private let sentinels: [ProgramUnderTest]
    /// The proxy in front of the first server, if the network can be split.
    private let proxy: FaultProxy?

    /// Starts all processes, and waits until the replica is in sync and the sentinels know each other and all servers.
    package static func start(_ options: Options = Options()) async throws -> SentinelTrio {
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
        // Not earlier: a sentinel asks the master for its replicas at first contact, and then every 10 s.
        let sentinels = try ports.sentinels.indices.map { try sentinel($0, ports, proxy, directory) }
        for port in ports.sentinels { try await waitForSentinel(port, ports, probe, sentinels) }
        return SentinelTrio(ports, directory, servers, sentinels, proxy)
    }

    /// Starts all processes, runs the body, and ends them.
    package static func run<Value>(
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

    /// URL with the sentinels' addresses and the master's name.
    package var url: String {
        "redis-sentinel://" + sentinelPorts.map { "127.0.0.1:\($0)" }.joined(separator: ",") + "/megaton"
    }

    /// A client connected directly to one of the servers, whatever its role; the test closes it.
    package func client(port: Int) -> RedisClient { Self.makeClient(port) }

    /// Sends SIGKILL to the server that was the master at the start.
    package func killMaster() { servers[0].send(SIGKILL) }

    /// Sends SIGSTOP to the server that was the master at the start: its connections stay open and silent.
    package func stopMaster() { servers[0].send(SIGSTOP) }

    /// Sends SIGCONT to the server that was the master at the start: it returns, and still acts as the master at first.
    package func continueMaster() { servers[0].send(SIGCONT) }

    /// Splits the network, or reconnects it: the server that was the master at the start is alone on one side, its
    /// replicas and the sentinels are on the other, and clients reach both.
    ///
    /// - Precondition: ``Options/isSplittable``.
    package func split(_ isOn: Bool) {
        guard let proxy else {
            preconditionFailure("Only a trio whose options say isSplittable has a network that can be split.")
        }
        proxy.split(from: isOn ? Self.farAddress : nil)
    }

    /// Runs an action, and returns once the first sentinel has announced a switch that followed the subscription.
    ///
    /// The other sentinels learn of it within their next exchange (2 s).
    ///
    /// - Throws: errors of the action; `NotReached` after 60 s.
    package func switched(
        isolation: isolated (any Actor)? = #isolation,
        after action: () async throws -> Void
    ) async throws {
        let (events, continuation) = AsyncStream.makeStream(of: Event.self)
        let subscriptions = ChannelSubscriptions(
            Self.configuration(sentinelPorts[0]),
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            onSubscribed: { _ in continuation.yield(.subscribed) },
            onMessage: { _, _ in continuation.yield(.switched) }
        )
        _ = subscriptions.subscribe(to: "+switch-master")
        // Unstructured, so that the action runs in the caller's isolation; cancelled when this method returns.
        let listening = Task { await subscriptions.run() }
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

    /// Kills all processes and waits for their ends.
    package func stop() async {
        let processes = sentinels + servers.reversed()
        for process in processes { process.send(SIGKILL) }
        for process in processes { _ = await process.ending() }
        proxy?.stop()
        directory.remove()
    }
}

// MARK: - Starting

extension SentinelTrio {
    /// Ports of all processes.
    private struct Ports {
        let master: Int
        /// Ports of the replicas; the first one takes over first.
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
        // The kernel may offer the same port twice, since none is in use yet.
        for _ in 0..<100 where ports.count < count {
            let port = try FreePort.find()
            if !ports.contains(port) { ports.append(port) }
        }
        guard ports.count == count else { throw NotReached(what: "\(count) free ports") }
        return ports
    }

    /// Launches a server with its own configuration file, which a sentinel's CONFIG REWRITE changes.
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
        return try ProgramUnderTest(program: RedisPrograms.server, arguments: [file] + arguments)
    }

    /// Starts the servers, the master first.
    private static func startServers(
        _ options: Options,
        _ ports: Ports,
        _ proxy: FaultProxy?,
        _ directory: TestDirectory
    ) throws -> [ProgramUnderTest] {
        // Sentinels learn a server's address from its master, to which it is announced. All announce 127.0.0.1, on
        // which each of them listens. The server behind the proxy announces the proxy's port, so that no path bypasses
        // the split.
        let near = proxy.map { ["replica-announce-ip 127.0.0.1", "replica-announce-port \($0.port)"] } ?? []
        // Protected mode accepts no other loopback address than 127.0.0.1.
        let far = [
            "bind-source-addr \(farAddress)", "protected-mode no", "replica-announce-ip 127.0.0.1",
        ]
        var servers = [try server("master", ports.master, options, directory, near)]
        for (index, port) in ports.replicas.enumerated() {
            // The replica with the lowest priority value takes over.
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
        // Otherwise it would announce the address from which it connects, on which it does not listen.
        if proxy != nil { lines += ["bind-source-addr \(farAddress)", "sentinel announce-ip 127.0.0.1"] }
        return try launch("sentinel-\(index)", lines, directory, arguments: ["--sentinel"])
    }

    /// Configuration of a client for a server of any role.
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
            // Redis reports this line only with min-replicas-to-write.
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

    /// Polls every 100 ms until a condition holds. An error thrown by it counts as "not yet".
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
            // A blocking read is the pause: unlike BLPOP it is allowed if there are too few replicas.
            try await master.send(["XREAD", "BLOCK", "100", "STREAMS", "megaton:pause", "$"], timeout: .seconds(10))
        }
        throw NotReached(what: what)
    }
}
