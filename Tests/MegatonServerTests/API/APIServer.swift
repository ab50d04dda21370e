import Foundation
import Hummingbird
import Logging
import MegatonRedis
import MegatonTestSupport
import NIOCore
import ServiceLifecycle
import Testing

@testable import MegatonCluster
@testable import MegatonServer

/// The routes of jobs, batches and outcomes at a real server, with a Redis of its own.
struct APIServer: Sendable {
    /// A response as curl prints it.
    struct Answer {
        let status: Int
        /// The lines of the head.
        let fields: [String]
        let body: String

        init(_ text: String) throws {
            let parts = text.components(separatedBy: "\r\n\r\n")
            let lines = parts[0].components(separatedBy: "\r\n")
            status = try #require(lines[0].split(separator: " ").dropFirst().first.flatMap { Int($0) }, "\(text)")
            fields = Array(lines.dropFirst())
            body = parts.dropFirst().joined(separator: "\r\n\r\n")
        }

        /// The value of a field; nil without it.
        func field(_ name: String) -> String? {
            let line = fields.first { $0.lowercased().hasPrefix(name.lowercased() + ":") }
            return line.map { $0.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces) }
        }

        /// The body as an object.
        func object() throws -> [String: Any] {
            try #require(try JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any], "\(body)")
        }

        /// The sentence of a problem document.
        func detail() throws -> String {
            #expect(field("Content-Type") == "application/problem+json")
            return try #require(try object()["detail"] as? String)
        }
    }

    let port: Int
    let redis: RedisServerProcess
    /// Files that the test sends.
    let directory: TestDirectory
    /// Begins the graceful shutdown of the server.
    let shutDown: @Sendable () async -> Void

    static let keys = QueueKeys()
    static let list = ["--header", "Content-Type: application/x-ndjson"]

    /// Runs a Redis and a server while the body runs.
    ///
    /// - Parameter registry: counts the requests.
    static func run(
        counting registry: PrometheusRegistry = PrometheusRegistry([]),
        gate: AccessGate = .open,
        pace: UploadPace = UploadPace(),
        streams: EventStreams = EventStreams(OutcomeRoutes.maximumStreams, of: "event streams"),
        largePages: RequestLimit = RequestLimit(OutcomeRoutes.maximumPages, of: "large pages of events"),
        polls: RequestLimit = RequestLimit(OutcomeRoutes.maximumStreams, of: "long polls"),
        _ body: @escaping @Sendable (APIServer) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let cluster = ClusterConnection(
                QueueAddress([redis.configuration], queue: keys.queue),
                caches: [],
                logger: logger
            )
            defer { cluster.close() }
            let directory = try TestDirectory()
            let (started, start) = AsyncStream<Int>.makeStream()
            let application = Application(
                router: router(cluster, registry, gate, pace, streams, largePages, polls, logger),
                server: HTTPServer.connections(),
                configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
                onServerRunning: { start.yield($0.localAddress?.port ?? 0) },
                logger: logger
            )
            let services = ServiceGroup(services: [application], logger: logger)
            try await withThrowingTaskGroup(of: Bool.self) { group in
                group.addTask {
                    try await services.run()
                    return false
                }
                group.addTask {
                    for await port in started {
                        let server = APIServer(port: port, redis: redis, directory: directory) {
                            await services.triggerGracefulShutdown()
                        }
                        try await body(server)
                        break
                    }
                    return true
                }
                defer { group.cancelAll() }
                // A body that shuts the server down continues without it.
                while let isBody = try await group.next(), !isBody {}
            }
        }
    }

    private init(
        port: Int,
        redis: RedisServerProcess,
        directory: TestDirectory,
        shutDown: @escaping @Sendable () async -> Void
    ) {
        (self.port, self.redis, self.directory, self.shutDown) = (port, redis, directory, shutDown)
    }

    private static func router(
        _ cluster: ClusterConnection,
        _ registry: PrometheusRegistry,
        _ gate: AccessGate,
        _ pace: UploadPace,
        _ streams: EventStreams,
        _ largePages: RequestLimit,
        _ polls: RequestLimit,
        _ logger: Logger
    ) -> Router<ServerContext> {
        let router = Router(context: ServerContext.self)
        router.add(middleware: RequestMetrics(registry))
        let groups = AccessScope.allCases.map { scope in
            router.group("/api/v1")
                .add(middleware: APIErrorMiddleware())
                .add(middleware: AccessMiddleware(gate, needs: scope))
        }
        let (read, submit, admin) = (groups[0], groups[1], groups[2])
        BatchRoutes(cluster: cluster, pace: pace).add(to: read, submit: submit, admin: admin)
        JobRoutes(cluster: cluster, pace: pace).add(to: read, submit: submit, admin: admin)
        OutcomeRoutes(cluster: cluster, streams: streams, largePages: largePages, polls: polls)
            .add(to: read, submit: submit, admin: admin)
        DeadRoutes(cluster: cluster).add(to: read, submit: submit, admin: admin)
        DashboardRoutes(DashboardFeed(cluster, logger: logger)).add(to: read)
        return router
    }

    // MARK: - Requests

    /// Begins a request.
    func start(_ path: String, _ options: [String] = []) throws -> ProgramUnderTest {
        let arguments = ["--silent", "--include", "--no-buffer", "--max-time", "100"] + options
        return try ProgramUnderTest(
            program: "/usr/bin/curl",
            arguments: arguments + ["http://127.0.0.1:\(port)/api/v1/\(path)"]
        )
    }

    func ask(_ path: String, _ options: [String] = []) async throws -> Answer {
        try Answer(await start(path, options).ending().output)
    }

    /// Submits a list of jobs.
    func submit(_ lines: [String], _ query: String, _ options: [String] = Self.list) async throws -> Answer {
        let file = try directory.write(Data(lines.joined(separator: "\n").utf8), to: UUID().uuidString)
        // Without a pause for an intermediate response.
        let upload = ["--request", "POST", "--header", "Expect:", "--upload-file", file]
        return try await ask("batches?\(query)", upload + options)
    }

    // MARK: - Redis

    func send(_ command: RedisCommand) async throws -> RedisValue {
        let client = redis.client()
        defer { client.close() }
        return try await client.send(command)
    }

    /// Submits a batch, and adds outcomes as if workers had ended its jobs.
    func makeBatch(_ name: String, outcomes count: Int, isFinished: Bool = true) async throws {
        let lines = (0..<count).map { #"{"id":"j\#($0)","source":"data:,a"}"# }
        #expect(try await submit(lines, "name=\(name)").status == 201)
        try await addOutcomes(0..<count, to: name)
        if isFinished {
            _ = try await send([
                "HSET", .string(Self.keys.batch(name)), "finished", "1", "closed", "1", "done", .int(count),
            ])
        }
    }

    func addOutcomes(_ numbers: Range<Int>, to name: String) async throws {
        for number in numbers {
            let line = JobOutcome(id: "j\(number)", source: "data:,a", status: .done).json()
            _ = try await send([
                "RPUSH", .string(Self.keys.results(name)), .string(String(decoding: line, as: UTF8.self)),
            ])
        }
    }
}
