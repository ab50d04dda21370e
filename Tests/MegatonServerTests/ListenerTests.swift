import Foundation
import Logging
import MegatonTestSupport
import Testing

@testable import MegatonServer

/// The HTTP listener of a process.
@Suite(.timeLimit(.minutes(1))) struct ListenerTests {
    private func listener(
        _ address: String = "127.0.0.1:0",
        idleTimeout: Duration = .seconds(5),
        isReady: @escaping @Sendable () -> Bool = { true }
    ) throws -> Listener {
        Listener(
            try #require(ListenAddress(address)),
            idleTimeout: idleTimeout,
            isReady: isReady,
            metrics: { [MetricFamily(ClusterMetrics.up, 1)] },
            logger: Logger(label: "test")
        )
    }

    /// Status, headers and body as curl prints them.
    private static func curl(_ path: String, _ port: Int, _ options: [String] = []) async throws -> String {
        let arguments = ["--silent", "--include", "--max-time", "20", "http://127.0.0.1:\(port)\(path)"] + options
        return await (try ProgramUnderTest(program: "/usr/bin/curl", arguments: arguments)).ending().output
    }

    @Test func eachPathHasItsAnswer() async throws {
        try await listener(isReady: { false }).serve { (port) async throws in
            #expect(try await Self.curl("/live", port).hasPrefix("HTTP/1.1 200 OK"))
            #expect(try await Self.curl("/ready", port).hasPrefix("HTTP/1.1 503 "))
            let metrics = try await Self.curl("/metrics", port)
            #expect(metrics.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"))
            #expect(metrics.hasSuffix("# TYPE megaton_cluster_up gauge\nmegaton_cluster_up 1\n"))
            #expect(try await Self.curl("/live", port, ["--head"]).hasPrefix("HTTP/1.1 200 OK"))
            #expect(try await Self.curl("/else", port).hasPrefix("HTTP/1.1 404 "))
            #expect(try await Self.curl("/", port).hasPrefix("HTTP/1.1 404 "))
            #expect(try await Self.curl("/live", port, ["--data", "x"]).hasPrefix("HTTP/1.1 404 "))
        }
    }

    /// Fault: connections without a request stayed open, until the worker had no descriptors left for its work.
    @Test(arguments: ["", "GET /live HTTP/1.1\\r\\n"]) func aConnectionWithoutARequestIsClosed(_ beginning: String)
        async throws
    {
        try await listener(idleTimeout: .seconds(1)).serve { (port) async throws in
            // Ends when the other side has closed.
            let script = "exec 3<>/dev/tcp/127.0.0.1/\(port); printf '\(beginning)' >&3; cat <&3"
            let client = try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", script])
            let ending = await client.ending()
            #expect(ending.code == 0 && ending.output.isEmpty, "\(ending.errors)")
            #expect(try await Self.curl("/live", port).hasPrefix("HTTP/1.1 200 OK"))
        }
    }

    /// Fault: a client of HTTP/1.0, which reads until the connection is closed, waited for the end of the idle time.
    @Test(arguments: [
        ("GET /live HTTP/1.0\\r\\n\\r\\n", 1),
        ("GET /live HTTP/1.0\\r\\nConnection: keep-alive\\r\\n\\r\\nGET /live HTTP/1.0\\r\\n\\r\\n", 2),
        ("GET /live HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: Close\\r\\n\\r\\n", 1),
        ("GET /live HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\nGET /live HTTP/1.0\\r\\n\\r\\n", 2),
    ]) func aConnectionThatIsNotKeptEndsWithTheResponse(_ requests: String, _ count: Int) async throws {
        try await listener(idleTimeout: .seconds(600)).serve { (port) async throws in
            // Ends when the other side has closed.
            let script = "exec 3<>/dev/tcp/127.0.0.1/\(port); printf '\(requests)' >&3; cat <&3"
            let client = try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", script])
            let ending = await client.ending()
            #expect(ending.code == 0 && ending.output.components(separatedBy: "live\n").count == count + 1)
        }
    }

    /// Fault: 64 clients that sent requests and read nothing kept all others out, for as long as they liked.
    @Test func clientsThatDoNotReadAreDisconnected() async throws {
        try await listener(idleTimeout: .seconds(1)).serve { (port) async throws in
            let script = """
                import socket
                connections = []
                for _ in range(\(Listener.maximumConnections)):
                    s = socket.socket()
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    s.connect(("127.0.0.1", \(port)))
                    s.settimeout(0.2)
                    connections.append(s)
                request = b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"
                for s in connections:
                    try:
                        for _ in range(200):
                            s.sendall(request * 1000)
                    except OSError:
                        pass
                print("sent", flush=True)
                input()
                """
            let clients = try ProgramUnderTest(program: "/usr/bin/python3", arguments: ["-c", script])
            try await clients.waitForOutput { $0.contains("sent") }
            #expect(try await Self.curl("/live", port).hasPrefix("HTTP/1.1 200 OK"))
            clients.send(SIGKILL)
            _ = await clients.ending()
        }
    }

    /// Fault: the rest of a body was read for as long as it came, although the request had been refused.
    @Test func aRefusedBodyIsNotReadForever() async throws {
        try await listener(idleTimeout: .seconds(1)).serve { (port) async throws in
            let script = """
                import socket, time
                s = socket.create_connection(("127.0.0.1", \(port)))
                s.sendall(b"POST /live HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 1000000000\\r\\n\\r\\n")
                print(s.recv(12).decode(), flush=True)
                try:
                    while True:
                        s.sendall(b"a")
                        time.sleep(0.01)
                except OSError:
                    print("closed")
                """
            let client = try ProgramUnderTest(program: "/usr/bin/python3", arguments: ["-c", script])
            let ending = await client.ending()
            #expect(ending.output == "HTTP/1.1 404\nclosed\n", "\(ending.errors)")
        }
    }

    /// More connections than the limit: the others wait until the first ones are closed.
    @Test func silentClientsDoNotKeepOthersOut() async throws {
        try await listener(idleTimeout: .seconds(1)).serve { (port) async throws in
            let silent =
                "for i in $(seq \(Listener.maximumConnections + 8)); do exec {fd}<>/dev/tcp/127.0.0.1/\(port); "
                + "done; read -r"
            let clients = try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", silent])
            #expect(try await Self.curl("/live", port).hasPrefix("HTTP/1.1 200 OK"))
            clients.send(SIGKILL)
            _ = await clients.ending()
        }
    }

    @Test func theListenerEndsWithTheBody() async throws {
        let port = try await listener().serve { $0 }
        #expect(try await Self.curl("/live", port).isEmpty)
    }

    /// Fault: a cancelled server of which clients had just connected ended the whole process.
    @Test func anEndBesideNewConnectionsIsNoCrash() async throws {
        for _ in 1...5 {
            try await listener(idleTimeout: .seconds(1)).serve { (port) async throws in
                let connect =
                    "for i in $(seq 100); do exec {fd}<>/dev/tcp/127.0.0.1/\(port) && echo; done 2> /dev/null"
                let clients = try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", connect])
                while clients.output.isEmpty { try await Task.sleep(for: .milliseconds(1)) }
                clients.send(SIGKILL)
            }
        }
    }

    @Test func anErrorOfTheBodyIsThrown() async throws {
        await #expect(throws: CancellationError.self) {
            try await listener().serve { _ in throw CancellationError() }
        }
    }

    @Test func anAddressInUseIsAnError() async throws {
        try await listener().serve { (port) async throws in
            let error = await #expect(throws: ListenError.self) {
                try await listener("127.0.0.1:\(port)").serve { _ in }
            }
            #expect(error?.reason == "Address already in use")
        }
    }

    @Test(arguments: ["8090", "localhost:", "localhost:65536", ":80", ""]) func aTextThatIsNoAddressIsNone(
        _ text: String
    ) {
        #expect(ListenAddress(text) == nil)
    }

    @Test func anAddressHasHostAndPort() {
        #expect(ListenAddress("[::1]:8090")?.host == "::1")
        #expect(ListenAddress("localhost:0")?.port == 0)
    }
}
