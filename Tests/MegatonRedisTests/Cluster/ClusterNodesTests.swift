import Logging
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonRedis

/// Connections of a client to the nodes of a cluster.
@Suite(.timeLimit(.minutes(1))) struct ClusterNodesTests {
    /// A cluster whose slots have one master.
    private func topology(_ port: Int) throws -> ClusterTopology {
        let range: RedisValue = .array([
            .integer(0), .integer(16_383), .array([.status("127.0.0.1"), .integer(port)]),
        ])
        return try ClusterTopology(slots: .array([range]), from: .tcp(host: "127.0.0.1", port: port))
    }

    /// Fault: the connection to a node that had ceased to be a master was open for 30 s after the end of the client.
    @Test func closingAClientClosesConnectionsToFormerMasters() async throws {
        let (port, other) = (try FreePort.find(), try FreePort.find())
        try await RedisServerProcess.run(.init(port: port)) { (server) async throws in
            let client = server.client()
            defer { client.close() }
            let nodes = ClusterNodes(
                try RedisConfiguration(url: "redis+cluster://127.0.0.1:\(port)"),
                name: "megaton:former",
                group: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                waitsForReconnect: true
            )
            nodes.accept(try topology(port))
            let node = try #require(nodes.masters.first)
            let former = try nodes.client(at: node)
            _ = try await former.pipeline([["PING"]], timeout: .seconds(20))
            nodes.accept(try topology(other))
            #expect(nodes.masters == [.tcp(host: "127.0.0.1", port: other)])
            let replies = try await former.pipeline([["PING"]], timeout: .seconds(20))
            #expect(replies == [.status("PONG")], "commands in flight end")
            nodes.close()
            // The time limit of the test is more than 30 s, but that of this loop is not.
            let start = ContinuousClock.now
            while try await client.send(["CLIENT", "LIST"]).string?.contains("megaton:former") != false {
                try #require(start.duration(to: .now) < .seconds(20))
                await Task.yield()
            }
            #expect(throws: RedisError.self) { try nodes.client(at: node) }
        }
    }
}
