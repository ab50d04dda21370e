import Foundation
import Logging
package import MegatonRedis
import NIOCore
import NIOPosix
import Synchronization

/// A real Redis Cluster on loopback ports: three masters and a replica of each. It ends with the object.
package final class RedisClusterProcesses: Sendable {
    /// A condition did not hold in time, or redis-cli failed.
    package struct NotReached: Error {
        /// Name of the condition.
        package let what: String
    }

    /// The PEM files of a cluster that speaks TLS only, and asks for client certificates.
    package struct TLS: Sendable {
        package let authority: String
        /// Of the nodes and of the clients.
        package let certificate: String
        package let key: String

        package init(_ certificates: TestCertificates, _ pair: TestCertificates.Pair) {
            authority = certificates.authority
            certificate = pair.certificate
            key = pair.key
        }

        fileprivate var settings: [String] {
            [
                "tls-cluster yes", "tls-replication yes", "tls-auth-clients yes", "tls-ca-cert-file \(authority)",
                "tls-cert-file \(certificate)", "tls-key-file \(key)",
            ]
        }

        /// Options of redis-cli.
        fileprivate var arguments: [String] { ["--tls", "--cacert", authority, "--cert", certificate, "--key", key] }

        fileprivate var query: String { "?ca=\(authority)&cert=\(certificate)&key=\(key)" }
    }

    private struct Node {
        let port: Int
        let process: ProgramUnderTest
    }

    /// Maximum number of polls, 50 ms each.
    private static let rounds = 600
    private let nodes: [Node]
    private let tls: TLS?
    private let directory: TestDirectory

    /// Starts six servers, makes a cluster of them, and waits until each node knows all slots and each replica is in
    /// sync.
    ///
    /// - Parameters:
    ///   - settings: lines of redis.conf, for all nodes.
    ///   - program: path of the server.
    ///   - tls: nil for plain connections.
    package static func start(
        settings: [String] = [],
        program: String = RedisPrograms.server,
        tls: TLS? = nil
    ) async throws -> RedisClusterProcesses {
        let directory = try TestDirectory()
        let ports = try freePorts(12)
        let nodes = try (0..<6).map { index in
            let lines = tls.map { ["port 0", "tls-port \(ports[index])"] + $0.settings } ?? ["port \(ports[index])"]
            return try launch(port: ports[index], busPort: ports[index + 6], lines + settings, program, directory)
        }
        let cluster = RedisClusterProcesses(nodes, tls, directory)
        for node in nodes {
            try await cluster.wait("a node that answers", at: node.port) {
                try await $0.send(["PING"]) == .status("PONG")
            }
        }
        let create = try await ProgramUnderTest(
            program: RedisPrograms.client,
            arguments: (tls?.arguments ?? []) + ["--cluster", "create"] + nodes.map { "127.0.0.1:\($0.port)" }
                + ["--cluster-replicas", "1", "--cluster-yes"]
        ).ending()
        guard create.code == 0 else { throw NotReached(what: "a cluster: \(create.output)\(create.errors)") }
        for node in nodes {
            try await cluster.wait("a node that knows the cluster", at: node.port) { client in
                let state = try await client.send(["CLUSTER", "INFO"]).string ?? ""
                let replication = try await client.send(["INFO", "replication"]).string ?? ""
                let isSynced = replication.contains("master_link_status:up") || replication.contains("state=online")
                return state.contains("cluster_state:ok") && state.contains("cluster_known_nodes:6") && isSynced
            }
        }
        return cluster
    }

    /// Starts a cluster, runs the body, and ends all processes.
    package static func run<Value>(
        settings: [String] = [],
        program: String = RedisPrograms.server,
        tls: TLS? = nil,
        isolation: isolated (any Actor)? = #isolation,
        _ body: (RedisClusterProcesses) async throws -> Value
    ) async throws -> Value {
        let cluster = try await start(settings: settings, program: program, tls: tls)
        do {
            let value = try await body(cluster)
            await cluster.stop()
            return value
        } catch {
            await cluster.stop()
            throw error
        }
    }

    private init(_ nodes: [Node], _ tls: TLS?, _ directory: TestDirectory) {
        self.nodes = nodes
        self.tls = tls
        self.directory = directory
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

    private static func launch(
        port: Int,
        busPort: Int,
        _ settings: [String],
        _ program: String,
        _ directory: TestDirectory
    ) throws -> Node {
        let folder = "\(directory.path)/\(port)"
        let lines =
            [
                "cluster-port \(busPort)", "bind 127.0.0.1", "dir \(folder)", "daemonize no",
                "logfile \(folder)/redis.log", "cluster-enabled yes", "cluster-node-timeout 1500", "save \"\"",
                "appendonly no", "repl-diskless-sync-delay 0",
            ] + settings
        let file = try directory.write(Data((lines.joined(separator: "\n") + "\n").utf8), to: "\(port)/redis.conf")
        return Node(port: port, process: try ProgramUnderTest(program: program, arguments: [file]))
    }

    /// Kills all processes and waits for their ends.
    package func stop() async {
        for node in nodes { node.process.send(SIGKILL) }
        for node in nodes { _ = await node.process.ending() }
        directory.remove()
    }

    // MARK: - Clients

    package var ports: [Int] { nodes.map(\.port) }

    /// URL with the addresses of two nodes, from which a client learns those of the others.
    package var url: String {
        let hosts = ports.prefix(2).map { "127.0.0.1:\($0)" }.joined(separator: ",")
        return tls.map { "rediss+cluster://\(hosts)\($0.query)" } ?? "redis+cluster://\(hosts)"
    }

    /// A client of the whole cluster; the test closes it.
    package func client(waitsForReconnect: Bool = true, commandTimeout: Duration = .seconds(20)) throws -> RedisClient {
        var configuration = try RedisConfiguration(url: url)
        configuration.commandTimeout = commandTimeout
        return Self.client(configuration, waitsForReconnect: waitsForReconnect)
    }

    /// A client of one node, whatever its role; the test closes it.
    package func client(port: Int) -> RedisClient {
        var configuration = RedisConfiguration(address: .tcp(host: "127.0.0.1", port: port))
        configuration.acceptsClusterNode = true
        configuration.usesTLS = tls != nil
        configuration.certificateAuthority = tls?.authority
        configuration.clientCertificate = tls?.certificate
        configuration.clientKey = tls?.key
        configuration.requiresMaster = false
        return Self.client(configuration)
    }

    private static func client(_ configuration: RedisConfiguration, waitsForReconnect: Bool = true) -> RedisClient {
        RedisClient(
            configuration,
            role: "test",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            waitsForReconnect: waitsForReconnect
        )
    }

    /// Sends a command to one node.
    @discardableResult
    package func send(_ command: RedisCommand, port: Int) async throws -> RedisValue {
        let client = client(port: port)
        defer { client.close() }
        return try await client.send(command)
    }

    // MARK: - Faults

    /// The port of the master of a slot, according to the first node that lives.
    package func master(ofSlot slot: Int) async throws -> Int {
        guard let living = nodes.first(where: \.process.isRunning) else { throw NotReached(what: "a living node") }
        let ranges = try await send(["CLUSTER", "SLOTS"], port: living.port).array ?? []
        for range in ranges.compactMap(\.array) {
            if let first = range[0].int, let last = range[1].int, (first...last).contains(slot),
                let port = range[2].array?[1].int
            {
                return port
            }
        }
        throw NotReached(what: "a master of slot \(slot)")
    }

    /// Sends SIGKILL to a node, and waits for its end.
    package func kill(port: Int) async {
        guard let node = nodes.first(where: { $0.port == port }) else { return }
        node.process.send(SIGKILL)
        _ = await node.process.ending()
    }

    /// Sends SIGSTOP to a node: its connections stay open and silent.
    package func pause(port: Int) { nodes.first { $0.port == port }?.process.send(SIGSTOP) }

    /// A slot that is being moved from one master to another by the steps of the cluster specification.
    package struct Migration: Sendable {
        package let slot: Int
        package let source: Int
        package let target: Int
    }

    /// Begins to move a slot to another master. Its keys stay until ``move(_:of:)``.
    package func beginMigration(ofSlot slot: Int) async throws -> Migration {
        let source = try await master(ofSlot: slot)
        var target = source
        for other in [0, 8191, 16_383] where target == source { target = try await master(ofSlot: other) }
        let ids = try await (id(of: source), id(of: target))
        try await send(["CLUSTER", "SETSLOT", .int(slot), "IMPORTING", .string(ids.0)], port: target)
        try await send(["CLUSTER", "SETSLOT", .int(slot), "MIGRATING", .string(ids.1)], port: source)
        return Migration(slot: slot, source: source, target: target)
    }

    /// Moves keys of the slot.
    ///
    /// - Parameter keys: all keys of the slot if nil, at most 1000.
    package func move(_ keys: [String]? = nil, of migration: Migration) async throws {
        let found =
            try await send(
                ["CLUSTER", "GETKEYSINSLOT", .int(migration.slot), "1000"],
                port: migration.source
            ).array ?? []
        let names = keys ?? found.compactMap(\.string)
        if names.isEmpty { return }
        let head: [RedisArgument] = ["MIGRATE", "127.0.0.1", .int(migration.target), "", "0", "5000", "KEYS"]
        try await send(RedisCommand(head + names.map { .string($0) }), port: migration.source)
    }

    /// Moves the remaining keys, and gives the slot to its new master.
    package func finish(_ migration: Migration) async throws {
        try await move(of: migration)
        let id = try await id(of: migration.target)
        for port in [migration.target, migration.source] {
            try await send(["CLUSTER", "SETSLOT", .int(migration.slot), "NODE", .string(id)], port: port)
        }
    }

    private func id(of port: Int) async throws -> String {
        try await send(["CLUSTER", "MYID"], port: port).string ?? ""
    }

    /// Polls every 50 ms until a condition holds. An error thrown by it counts as "not yet".
    private func wait(_ what: String, at port: Int, until condition: (RedisClient) async throws -> Bool) async throws {
        let client = client(port: port)
        defer { client.close() }
        for _ in 0..<Self.rounds {
            if let isTrue = try? await condition(client), isTrue { return }
            for node in nodes where !node.process.isRunning {
                throw NotReached(what: "\(what): a process has ended: \(node.process.output)\(node.process.errors)")
            }
            try await MultiThreadedEventLoopGroup.singleton.next().scheduleTask(in: .milliseconds(50)) {}
                .futureResult.get()
        }
        throw NotReached(what: what)
    }
}
