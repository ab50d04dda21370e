import Foundation
import Logging
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonServer

/// The ends of servers that have clients.
@Suite(.timeLimit(.minutes(1))) struct GracefulServerTests {
    /// A server whose Redis nothing answers for.
    private func server(_ address: ListenAddress, redisLimit: Duration) throws -> HTTPServer {
        let redis = try RedisConfiguration(url: "redis://127.0.0.1:1")
        let logger = Logger(label: "test")
        var configuration = HTTPServer.Configuration(address)
        configuration.redisLimit = redisLimit
        return HTTPServer(
            configuration,
            gate: .open,
            cluster: ClusterConnection(QueueAddress([redis], queue: "default"), caches: [redis], logger: logger),
            registry: PrometheusRegistry([]),
            process: ProcessMetrics(version: "1", role: "serve"),
            logger: logger
        )
    }

    /// An address whose port was free just now.
    private func freeAddress() async throws -> ListenAddress {
        let any = try #require(ListenAddress("127.0.0.1:0"))
        let listener = Listener(any, isReady: { true }, metrics: { [] }, logger: Logger(label: "test"))
        return any.with(port: try await listener.serve { $0 })
    }

    /// Clients that connect to the port as long as they live; they have connected at least once.
    private func clients(of port: Int) async throws -> ProgramUnderTest {
        let connect = "while :; do exec {fd}<>/dev/tcp/127.0.0.1/\(port) && echo && exec {fd}>&-; done 2> /dev/null"
        let clients = try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", connect])
        while clients.output.isEmpty { try await Task.sleep(for: .milliseconds(1)) }
        return clients
    }

    /// Runs servers whose clients connect all the time.
    ///
    /// - Parameter end: ends the server, whose task it receives.
    private func repeatedly(
        redisLimit: Duration,
        _ end: (Task<Void, any Error>) async throws -> Void
    ) async throws {
        for _ in 1...3 {
            let address = try await freeAddress()
            let server = try server(address, redisLimit: redisLimit)
            let task = Task { try await server.run() }
            let clients = try await clients(of: address.port)
            try await end(task)
            clients.send(SIGKILL)
            _ = await clients.ending()
        }
    }

    /// Fault: a server that was cancelled beside a new connection ended the whole process.
    @Test func aServerWithoutRedisEndsBesideNewConnections() async throws {
        try await repeatedly(redisLimit: .milliseconds(300)) { (server) async throws in
            await #expect(throws: RedisError.self) { try await server.value }
        }
    }

    @Test func aCancelledServerEndsBesideNewConnections() async throws {
        try await repeatedly(redisLimit: .seconds(50)) { (server) async throws in
            server.cancel()
            try await server.value
        }
    }

    /// The request waits for a metric that does not come: the end of the body cuts it off.
    @Test func aRequestThatDoesNotEndIsCutOff() async throws {
        let (calls, call) = AsyncStream<Void>.makeStream()
        let listener = Listener(
            try #require(ListenAddress("127.0.0.1:0")),
            idleTimeout: .seconds(1),
            isReady: { true },
            metrics: {
                call.yield()
                try? await Task.sleep(for: .seconds(600))
                return []
            },
            logger: Logger(label: "test")
        )
        try await listener.serve { (port) async throws in
            let arguments = ["--silent", "--max-time", "50", "http://127.0.0.1:\(port)/metrics"]
            let client = try ProgramUnderTest(program: "/usr/bin/curl", arguments: arguments)
            for await _ in calls { break }
            client.send(SIGKILL)
            _ = await client.ending()
        }
    }
}
