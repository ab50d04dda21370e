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

    // Fault: the framework closed a connection as soon as the end of its last response was written, and a slow client
    // lost what still waited for it in the server, up to 64 KiB.
    @Test(arguments: ["shutdown", "half-close", "close"])
    func aSlowClientGetsTheLastBytes(_ reason: String) async throws {
        let families = [
            MetricFamily(
                MetricDescription("test_large", .gauge, "Large."),
                (0..<100_000).map {
                    MetricFamily.Sample(1, labels: [("label", String(repeating: "a", count: 60) + "\($0)")])
                }
            )
        ]
        let length = PrometheusText.encode(families).utf8.count
        let listener = Listener(
            try #require(ListenAddress("127.0.0.1:0")),
            idleTimeout: .seconds(30),
            isReady: { true },
            metrics: { families },
            logger: Logger(label: "test")
        )
        // Its buffer is fixed, so that the server has to wait for it.
        let script = """
            import socket, sys, time
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", int(sys.argv[1])))
            close = "Connection: close\\r\\n" if sys.argv[2] == "close" else ""
            s.sendall(f"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\n{close}\\r\\n".encode())
            if sys.argv[2] == "half-close": s.shutdown(socket.SHUT_WR)
            data = s.recv(4096)
            print("begun", flush=True)
            end = data.index(b"\\r\\n\\r\\n") + 4
            length, had = int(sys.argv[3]), len(data) - end
            while had < length and (part := s.recv(16384)):
                had += len(part)
                time.sleep(0.0005)
            print(had, flush=True)
            """
        let client = try await listener.serve { (port) async throws in
            let client = try ProgramUnderTest(
                program: "/usr/bin/python3",
                arguments: ["-c", script, "\(port)", reason, "\(length)"]
            )
            try await client.waitForOutput { $0.contains("begun") }
            // A shutdown begins at the end of this body, in the middle of the response.
            if reason != "shutdown" { _ = await client.ending() }
            return client
        }
        _ = await client.ending()
        #expect(client.output.split(separator: "\n").last.map(String.init) == "\(length)")
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
