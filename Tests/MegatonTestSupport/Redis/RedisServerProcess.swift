import Foundation
import Logging
package import MegatonRedis
import NIOPosix
import Synchronization

/// A real redis-server on its own socket. It ends with the object.
package final class RedisServerProcess: Sendable {
    /// Settings of the server.
    package struct Options: Sendable {
        /// Lines of redis.conf.
        package var settings: [String]
        /// Configuration file of the repository to start from.
        package var file: String?
        /// Loopback port in addition to the socket.
        package var port: Int?
        package var tls: TLS?
        /// Variables added to the test's own environment.
        package var environment: [String: String]
        /// Path of the server.
        package var program: String

        package init(
            settings: [String] = [],
            file: String? = nil,
            port: Int? = nil,
            tls: TLS? = nil,
            environment: [String: String] = [:],
            program: String = RedisPrograms.server
        ) {
            self.settings = settings
            self.file = file
            self.port = port
            self.tls = tls
            self.environment = environment
            self.program = program
        }
    }

    /// A certificate's files.
    package struct TLS: Sendable {
        package var port: Int
        package var certificate: String
        package var key: String

        package init(port: Int, certificate: String, key: String) {
            self.port = port
            self.certificate = certificate
            self.key = key
        }
    }

    package let directory: TestDirectory
    package let socket: String
    private let options: Options
    /// The current process, or the last one.
    private let process: Mutex<ProgramUnderTest>

    /// Starts a server and waits until it answers.
    package static func start(_ options: Options = Options()) async throws -> RedisServerProcess {
        let directory = try TestDirectory()
        let server = RedisServerProcess(options, directory, try launch(options, directory))
        try await server.waitUntilReady()
        return server
    }

    /// Starts a server, runs the body, and stops the server.
    package static func run<Value>(
        _ options: Options = Options(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (RedisServerProcess) async throws -> Value
    ) async throws -> Value {
        let server = try await start(options)
        do {
            let value = try await body(server)
            await server.stop()
            return value
        } catch {
            await server.stop()
            throw error
        }
    }

    private init(_ options: Options, _ directory: TestDirectory, _ process: ProgramUnderTest) {
        self.options = options
        self.directory = directory
        self.process = Mutex(process)
        socket = directory.path + "/redis.sock"
    }

    private static func launch(_ options: Options, _ directory: TestDirectory) throws -> ProgramUnderTest {
        var arguments = options.file.map { [$0] } ?? []
        arguments += ["--port", options.port.map(String.init) ?? "0"]
        arguments += ["--unixsocket", directory.path + "/redis.sock", "--dir", directory.path]
        arguments += ["--daemonize", "no", "--logfile", directory.path + "/redis.log"]
        // Lets a test wait for a change of a key instead of polling.
        arguments += ["--notify-keyspace-events", "KA"]
        if options.file == nil { arguments += ["--save", "", "--appendonly", "no"] }
        if let tls = options.tls {
            arguments += ["--tls-port", String(tls.port), "--tls-cert-file", tls.certificate]
            arguments += ["--tls-key-file", tls.key, "--tls-auth-clients", "no"]
        }
        for setting in options.settings {
            let words = setting.split(separator: " ", maxSplits: 1).map(String.init)
            arguments += ["--" + words[0]] + words.dropFirst()
        }
        return try ProgramUnderTest(
            program: options.program,
            arguments: arguments,
            environment: options.environment
        )
    }

    package var configuration: RedisConfiguration { RedisConfiguration(address: .unix(path: socket)) }
    package var url: String { "unix://\(socket)" }
    /// Process id of the server.
    package var pid: Int32 { current.pid }
    private var current: ProgramUnderTest { process.withLock { $0 } }

    /// A client that the test closes, or that ends with the test's process.
    package func client(_ role: String = "test") -> RedisClient {
        RedisClient(
            configuration,
            role: role,
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    /// A client of a server that may not exist, and that commands do not wait for.
    package static func client(ofSocket path: String) throws -> RedisClient {
        RedisClient(
            try RedisConfiguration(url: "unix://\(path)"),
            role: "test",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            waitsForReconnect: false
        )
    }

    private func waitUntilReady() async throws {
        // The socket file appears once the server listens; the directory is watched for it.
        try await directory.waitForFile(named: "redis.sock")
        let client = client("ready")
        defer { client.close() }
        while true {
            do {
                try await client.send(["PING"])
                return
            } catch {
                if error.code == .authentication { return }
                guard error.code == .busy || error.code == .unreachable, current.isRunning else { throw error }
                await Task.yield()
            }
        }
    }

    /// Kills the server and waits for its end.
    package func stop() async {
        current.send(SIGKILL)
        _ = await current.ending()
        directory.remove()
    }

    /// Kills the server; its data stays for ``startAgain()``.
    package func crash() async {
        current.send(SIGKILL)
        _ = await current.ending()
        // A socket file outlives its server, and would look like that of the next one.
        try? FileManager.default.removeItem(atPath: socket)
    }

    /// Starts the server again after ``crash()``, in the same directory, and waits until it answers.
    package func startAgain() async throws {
        let next = try Self.launch(options, directory)
        process.withLock { $0 = next }
        try await waitUntilReady()
    }

    /// Waits until a condition holds that can only change with one of the keys.
    package func wait(
        forChangesOf keys: [String],
        until condition: @escaping @Sendable (RedisClient) async throws -> Bool
    ) async throws {
        let client = client("watch")
        defer { client.close() }
        let (changes, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let subscriptions = ChannelSubscriptions(
            configuration,
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            onSubscribed: { _ in continuation.yield() },
            onMessage: { _, _ in continuation.yield() }
        )
        for key in keys { _ = subscriptions.subscribe(to: "__keyspace@0__:\(key)") }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await subscriptions.run() }
            group.addTask {
                for await _ in changes where try await condition(client) { return }
            }
            try await group.next()
            group.cancelAll()
        }
    }
}

extension RedisServerProcess {
    /// Returns once a client waits for the end of a flight.
    package func waitForSubscriber(_ client: RedisClient) async throws {
        while try await client.send(["PUBSUB", "CHANNELS", "megaton:landed:*"]).array?.isEmpty != false {
            await Task.yield()
        }
    }
}
