import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster
@testable import MegatonServer

/// Secrets in the URLs of jobs, which only tokens with the scope `admin` get.
@Suite(.timeLimit(.minutes(2))) struct RedactedJSONTests {
    private static let secret = "https://user:hidden@example.com/a.jpg?page=2&sig=hidden"
    private static let shown = "https://example.com/a.jpg?page=2&sig=…"

    private static func redacted(_ json: String) -> String {
        String(decoding: RedactedJSON.data(Data(json.utf8)), as: UTF8.self)
    }

    @Test func onlyTextsWithSecretsChange() {
        let rest = #""seconds": 0.1, "note":"a\u0041?\"b", "bytes":12345678901234567890}"#
        #expect(Self.redacted(#"{"source":"\#(Self.secret)", \#(rest)"#) == #"{"source":"\#(Self.shown)", \#(rest)"#)
        let plain = #"{"source":"https://example.com/a.jpg?page=2",  "x":[1.50,null]}"#
        #expect(Self.redacted(plain) == plain)
        let path = #"{"source":"https://example.com/a.jpg;size=2;session=hidden"}"#
        #expect(Self.redacted(path) == #"{"source":"https://example.com/a.jpg;size=2;session=…"}"#)
    }

    /// The job of a dead letter is a text, as another program has written it.
    @Test(arguments: [
        #"{"source":"https:\/\/user:hidden@example.com\/a.jpg?sig=hidden"}"#,
        #"{"source":"https://user\u003ahidden\u0040example.com/a.jpg?\u0073ig=hidden"}"#,
        #"{"source":"https:\/\/user:hidden@example.com"#, "https://user:hidden@example.com/a.jpg?sig=hidden",
    ])
    func jsonInATextIsRedacted(_ job: String) throws {
        let json = try JSONEncoder().encode(["job": job])
        let redacted = RedactedJSON.data(json)
        #expect(!String(decoding: redacted, as: UTF8.self).contains("hidden"))
        let text = try #require(try JSONDecoder().decode([String: String].self, from: redacted)["job"])
        #expect(text.contains("example.com"))
    }

    @Test func onlyAnAdministratorGetsSecrets() async throws {
        let tokens = [("reader", "read"), ("operator", "admin")].map {
            #"{"name": "\#($0.0)", "token": "\#($0.0)-token-000001", "scopes": ["\#($0.1)"]}"#
        }
        let file = Data(#"{"tokens": [\#(tokens.joined(separator: ", "))]}"#.utf8)
        let gate = AccessGate(AccessTokens(try TokenFile.entries(file)))
        try await APIServer.run(gate: gate) { (server) async throws in
            let keys = APIServer.keys
            let job = #"{"id":"a","source":"\#(Self.secret)"}"#
            let outcome = JobOutcome(id: "a", source: Self.secret, status: .done).json()
            let letter = try JSONEncoder().encode(DeadLetter.Content(code: "not_found", message: "none", job: job))
            for command: RedisCommand in [
                ["HSET", .string(keys.batch("spring")), "ledger", "1", "total", "1", "done", "1", "finished", "1"],
                ["RPUSH", .string(keys.results("spring")), .string(String(decoding: outcome, as: UTF8.self))],
                ["HSET", .string(keys.deadInfo), "a", .string(String(decoding: letter, as: UTF8.self))],
                ["ZADD", .string(keys.dead), "1000", "a"],
            ] { _ = try await server.send(command) }
            for path in ["batches/spring/outcomes", "batches/spring/events", "dead", "dead/a"] {
                let read = try await server.ask(path, ["--header", "Authorization: Bearer reader-token-000001"])
                #expect(read.status == 200 && !read.body.contains("hidden"), "\(path): \(read.body)")
                #expect(read.body.contains("example.com/a.jpg?page=2"), "\(path): \(read.body)")
                let all = try await server.ask(path, ["--header", "Authorization: Bearer operator-token-000001"])
                #expect(all.body.contains("user:hidden@example.com"), "\(path): \(all.body)")
            }
        }
    }
}
