import Foundation
import Hummingbird
import Logging
import MegatonCore
import MegatonTestSupport
import NIOCore
import Synchronization
import Testing

@testable import MegatonServer

/// Tokens at a real server.
@Suite(.timeLimit(.minutes(1))) struct AccessMiddlewareTests {
    private struct Context: AccessRequestContext {
        var coreContext: CoreRequestContextStorage
        var identity: AccessIdentity?
        var isStillValid: (@Sendable () -> Bool)?
        let remoteAddress: SocketAddress?

        init(source: ApplicationRequestContextSource) {
            coreContext = CoreRequestContextStorage(source: source)
            remoteAddress = source.channel.remoteAddress
        }
    }

    /// A response as curl prints it.
    private struct Answer {
        let status: Int
        /// The lines of the head, without the first one and the date.
        let fields: [String]
        let body: String

        init(_ text: String) throws {
            let parts = text.components(separatedBy: "\r\n\r\n")
            let lines = parts[0].components(separatedBy: "\r\n")
            status = try #require(lines[0].split(separator: " ").dropFirst().first.flatMap { Int($0) }, "\(text)")
            fields = lines.dropFirst().filter { !$0.lowercased().hasPrefix("date:") }
            body = parts.dropFirst().joined(separator: "\r\n\r\n")
        }

        /// The value of a field; nil without it.
        func field(_ name: String) -> String? {
            let line = fields.first { $0.lowercased().hasPrefix(name.lowercased() + ":") }
            return line.map { $0.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces) }
        }
    }

    private struct Document: Decodable, Equatable {
        var type = "about:blank"
        let title: String
        let status: Int
        let detail: String
    }

    /// Stores the warnings of a server.
    private final class WarningLog: LogHandler {
        private let lines = Mutex<[String]>([])

        /// Message and metadata of each warning.
        var recorded: [String] { lines.withLock { $0 } }

        var metadata: Logger.Metadata {
            get { [:] }
            set {}
        }
        var logLevel: Logger.Level {
            get { .warning }
            set {}
        }
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { nil }
            set {}
        }

        func log(event: LogEvent) {
            guard event.level == .warning else { return }
            lines.withLock { $0.append("\(event.message) \(event.metadata ?? [:])") }
        }
    }

    private static func token(_ name: String) -> String { "\(name)-0123456789abcdef" }

    private static let now = Date(timeIntervalSince1970: 1_800_000_000)

    /// Accepts a token for each scope, and knows an expired one.
    private static func gate(_ limit: AttemptLimit = AttemptLimit()) -> AccessGate {
        var entries = AccessScope.allCases.map { scope in
            let identity = AccessIdentity(name: scope.rawValue, scopes: [scope])
            return AccessTokens.Entry(token: token(scope.rawValue), identity: identity)
        }
        let old = AccessIdentity(name: "old", scopes: [.admin])
        entries.append(AccessTokens.Entry(token: token("old"), identity: old, expires: now))
        return AccessGate(AccessTokens(entries), limit: limit, date: { now })
    }

    /// Runs a server with `/live`, which is open, and `/read`, `/submit` and `/admin`, which need the scope.
    private func serve(
        _ gate: AccessGate,
        log: WarningLog = WarningLog(),
        while body: @escaping @Sendable (_ port: Int) async throws -> Void
    ) async throws {
        let (started, start) = AsyncStream<Int>.makeStream()
        let router = Router(context: Context.self)
        router.get("/live") { _, context in "\(context.identity?.name ?? "none")" }
        for scope in AccessScope.allCases {
            let group = router.group("/\(scope.rawValue)").add(middleware: AccessMiddleware(gate, needs: scope))
            group.get { _, context in "\(context.identity?.name ?? "none")" }
            group.post { _, context in "\(context.identity?.name ?? "none")" }
        }
        let logger = Logger(label: "test") { _ in log }
        let application = Application(
            router: router,
            configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { start.yield($0.localAddress?.port ?? 0) },
            logger: logger
        )
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await application.run() }
            group.addTask {
                for await port in started { return try await body(port) }
            }
            defer { group.cancelAll() }
            _ = try await group.next()
        }
    }

    private static func curl(_ port: Int, _ path: String, _ options: [String] = []) async throws -> String {
        let arguments = ["--silent", "--include", "--max-time", "20"] + options
        let url = "http://127.0.0.1:\(port)\(path)"
        return await (try ProgramUnderTest(program: "/usr/bin/curl", arguments: arguments + [url])).ending().output
    }

    private static func ask(_ port: Int, _ path: String, _ fields: String...) async throws -> Answer {
        try Answer(try await curl(port, path, fields.flatMap { ["--header", $0] }))
    }

    private static func document(_ answer: Answer) throws -> Document {
        #expect(answer.field("Content-Type") == "application/problem+json")
        #expect(answer.field("Cache-Control") == "no-store")
        let document = try JSONDecoder().decode(Document.self, from: Data(answer.body.utf8))
        #expect(document.status == answer.status && document.type == "about:blank" && document.detail.hasSuffix("."))
        return document
    }

    @Test func aTokenOpensThePathsOfItsScopes() async throws {
        try await serve(Self.gate()) { (port) async throws in
            for token in AccessScope.allCases {
                for path in AccessScope.allCases {
                    let answer = try await Self.ask(
                        port,
                        "/\(path.rawValue)",
                        "Authorization: Bearer \(Self.token(token.rawValue))"
                    )
                    if token.includes(path) {
                        #expect(answer.status == 200 && answer.body == token.rawValue)
                        continue
                    }
                    #expect(answer.status == 403)
                    #expect(
                        answer.field("WWW-Authenticate")
                            == #"Bearer realm="megaton", error="insufficient_scope", scope="\#(path.rawValue)""#
                    )
                    #expect(try Self.document(answer).title == "Forbidden")
                    #expect(!answer.body.contains("0123456789"))
                }
            }
        }
    }

    /// A token counts in the header `Authorization` only, and behind the scheme.
    @Test func withoutATokenNothingIsOpen() async throws {
        try await serve(Self.gate()) { (port) async throws in
            let token = Self.token("read")
            for (path, field) in [
                ("/read", "Accept: */*"), ("/read?access_token=\(token)", "Accept: */*"),
                ("/read?token=\(token)", "Cookie: access_token=\(token)"), ("/read", "Authorization: Basic YTpi"),
                ("/read", "Authorization: Bearer"), ("/read", "Authorization: \(token)"),
                ("/read", "Proxy-Authorization: Bearer \(token)"),
            ] {
                let answer = try await Self.ask(port, path, field)
                #expect(answer.status == 401 && answer.field("WWW-Authenticate") == #"Bearer realm="megaton""#)
                let document = try Self.document(answer)
                #expect(document.title == "Unauthorized" && document.detail.contains("has no token"))
            }
            #expect(try await Self.ask(port, "/live").body == "none")
            let posted = try Answer(try await Self.curl(port, "/submit", ["--data", "{}"]))
            #expect(posted.status == 401)
        }
    }

    @Test func wrongAndExpiredTokensLookTheSame() async throws {
        try await serve(Self.gate()) { (port) async throws in
            let wrong = try await Self.ask(port, "/read", "Authorization: Bearer \(Self.token("wrong"))")
            #expect(wrong.status == 401)
            #expect(wrong.field("WWW-Authenticate") == #"Bearer realm="megaton", error="invalid_token""#)
            #expect(try Self.document(wrong).title == "Unauthorized")
            for text in [Self.token("old"), "tökén", "two words", "a, Bearer \(Self.token("read"))"] {
                let answer = try await Self.ask(port, "/read", "Authorization: Bearer \(text)")
                #expect(answer.status == wrong.status && answer.body == wrong.body, "\(text)")
                #expect(answer.fields == wrong.fields, "\(text)")
            }
        }
    }

    @Test func theSchemeHasAnyCaseAndSpacesAroundTheTokenAreAllowed() async throws {
        try await serve(Self.gate()) { (port) async throws in
            let token = Self.token("read")
            for value in ["bearer \(token)", "BEARER \(token)", "Bearer  \(token)", "  Bearer \(token)  "] {
                #expect(try await Self.ask(port, "/read", "Authorization: \(value)").body == "read", "\(value)")
            }
        }
    }

    @Test func severalHeadersAreRefused() async throws {
        try await serve(Self.gate()) { (port) async throws in
            let field = "Authorization: Bearer \(Self.token("read"))"
            let answer = try await Self.ask(port, "/read", field, field)
            #expect(answer.status == 400 && answer.field("WWW-Authenticate") == nil)
            #expect(try Self.document(answer).title == "Bad Request")
        }
    }

    @Test func tooManyAttemptsAreRefusedUnseen() async throws {
        let clock = SteppedClock()
        try await serve(Self.gate(AttemptLimit(time: TimeSource(clock)))) { (port) async throws in
            let valid = "Authorization: Bearer \(Self.token("read"))"
            for _ in 0..<AttemptLimit.maximumFailures {
                let answer = try await Self.ask(port, "/read", "Authorization: Bearer \(Self.token("wrong"))")
                #expect(answer.status == 401)
            }
            clock.advance(by: .milliseconds(500))
            let refused = try await Self.ask(port, "/read", valid)
            #expect(refused.status == 429 && refused.field("Retry-After") == "60")
            #expect(try Self.document(refused).title == "Too Many Requests")
            #expect(try await Self.ask(port, "/live").status == 200)
            clock.advance(by: .seconds(60))
            #expect(try await Self.ask(port, "/read", valid).body == "read")
        }
    }

    @Test func invalidTokensAreAWarningOnceAMinute() async throws {
        let (clock, log) = (SteppedClock(), WarningLog())
        try await serve(Self.gate(AttemptLimit(time: TimeSource(clock))), log: log) { (port) async throws in
            let wrong = "Authorization: Bearer \(Self.token("wrong"))"
            _ = try await Self.ask(port, "/read")
            _ = try await Self.ask(port, "/read", "Authorization: Bearer \(Self.token("read"))")
            #expect(log.recorded.isEmpty)
            for _ in 0...AttemptLimit.maximumFailures { _ = try await Self.ask(port, "/read", wrong) }
            #expect(log.recorded.count == 1)
            #expect(log.recorded.first?.contains("127.0.0.1") == true)
            #expect(log.recorded.first?.contains("0123456789") == false)
            clock.advance(by: .seconds(60))
            _ = try await Self.ask(port, "/admin", wrong)
            #expect(log.recorded.count == 2)
        }
    }

    @Test func anOpenServerTakesRequestsOfThisMachine() async throws {
        try await serve(.open) { (port) async throws in
            for scope in AccessScope.allCases {
                #expect(try await Self.ask(port, "/\(scope.rawValue)").body == "open")
            }
            #expect(try await Self.ask(port, "/admin", "Host: localhost:\(port)").status == 200)
            #expect(try await Self.ask(port, "/admin", "Origin: http://127.0.0.1:\(port)").status == 200)
            for field in ["Host: rebound.example.com", "Origin: https://example.com", "Origin: null"] {
                let answer = try await Self.ask(port, "/admin", field)
                #expect(answer.status == 403, "\(field)")
                #expect(try Self.document(answer).title == "Forbidden")
            }
        }
    }
}
