import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster
@testable import MegatonServer

/// Tokens that close and cancel batches: their own, and with the scope `admin` all.
@Suite(.timeLimit(.minutes(2))) struct BatchOwnerTests {
    private static let job = #"{"source":"data:,a"}"#
    /// Two tokens of one name, as during a rotation, two without a name, and others.
    private static let tokens = [
        ("importer-token-1", #""name": "importer", "scopes": ["submit"]"#),
        ("importer-token-2", #""name": "importer", "scopes": ["submit"]"#),
        ("nameless-token-1", #""scopes": ["submit"]"#), ("nameless-token-2", #""scopes": ["submit"]"#),
        ("other-token-0001", #""name": "other", "scopes": ["read", "submit"]"#),
        ("admin-token-0001", #""name": "operator", "scopes": ["admin"]"#),
    ]

    private static func gate() throws -> AccessGate {
        let items = tokens.map { #"{"token": "\#($0.0)", \#($0.1)}"# }.joined(separator: ", ")
        return AccessGate(AccessTokens(try TokenFile.entries(Data(#"{"tokens": [\#(items)]}"#.utf8))))
    }

    private static func header(_ token: String) -> [String] { ["--header", "Authorization: Bearer \(token)"] }

    private static func change(_ name: String, _ change: String, _ token: String, at server: APIServer) async throws
        -> APIServer.Answer
    {
        try await server.ask("batches/\(name)/\(change)", ["--request", "POST"] + header(token))
    }

    @Test(arguments: ["cancel", "close"]) func aTokenChangesOnlyItsOwnBatches(_ change: String) async throws {
        try await APIServer.run(gate: try Self.gate()) { (server) async throws in
            let list = APIServer.list + Self.header("importer-token-1")
            #expect(try await server.submit([Self.job], "name=spring", list).status == 201)
            for token in ["other-token-0001", "nameless-token-1"] {
                let refused = try await Self.change("spring", change, token, at: server)
                #expect(refused.status == 403, "\(token)")
                #expect(try refused.detail().hasPrefix("The batch spring is not one of this token's"))
            }
            let batch = try await server.ask("batches/spring", Self.header("other-token-0001")).object()
            #expect(batch["cancelled"] as? Int == 0 && batch["state"] as? String == "running")
            #expect(try await Self.change("spring", change, "importer-token-1", at: server).status == 200)
        }
    }

    @Test(arguments: ["importer-token-2", "admin-token-0001"])
    func aTokenOfTheSameNameAndAnAdministratorMayChangeABatch(_ token: String) async throws {
        try await APIServer.run(gate: try Self.gate()) { (server) async throws in
            let list = APIServer.list + Self.header("importer-token-1")
            #expect(try await server.submit([Self.job], "name=spring", list).status == 201)
            let answer = try await Self.change("spring", "cancel", token, at: server)
            #expect(try answer.object()["cancelled"] as? Int == 1, "\(answer.body)")
        }
    }

    @Test func aTokenWithoutANameOwnsItsBatches() async throws {
        try await APIServer.run(gate: try Self.gate()) { (server) async throws in
            let list = APIServer.list + Self.header("nameless-token-1")
            #expect(try await server.submit([Self.job], "name=spring", list).status == 201)
            #expect(try await Self.change("spring", "cancel", "nameless-token-2", at: server).status == 403)
            #expect(try await Self.change("spring", "cancel", "nameless-token-1", at: server).status == 200)
            let owner = try await server.send(["HGET", .string(APIServer.keys.batch("spring")), "owner"]).string
            #expect(owner?.hasPrefix("sha256:") == true && owner?.contains("nameless") == false)
        }
    }

    /// A batch that begins with a single job is the token's, and is known once the job is admitted.
    @Test func aBatchOfSingleJobsHasAnOwner() async throws {
        try await APIServer.run(gate: try Self.gate()) { (server) async throws in
            let job = #"{"source":"data:,a","batch":"spring"}"#
            let body = ["--header", "Content-Type: application/json", "--data", job]
            #expect(try await server.ask("jobs", body + Self.header("importer-token-1")).status == 202)
            #expect(try await server.ask("jobs", body + Self.header("other-token-0001")).status == 403)
            for token in ["importer-token-2", "admin-token-0001"] {
                #expect(try await server.ask("jobs", body + Self.header(token)).status == 202, "\(token)")
            }
            #expect(try await server.send(["LLEN", .string(APIServer.keys.jobs)]).int == 3)
            #expect(try await Self.change("spring", "close", "importer-token-1", at: server).status == 404)
            // As the script `admit` counts them.
            let key = APIServer.keys.batch("spring")
            _ = try await server.send(["HSET", .string(key), "total", "3", "own", "0"])
            #expect(try await Self.change("spring", "close", "other-token-0001", at: server).status == 403)
            #expect(try await Self.change("spring", "close", "importer-token-2", at: server).status == 200)
        }
    }

    /// The first number of jobs closes a batch of the public lists.
    @Test func aTokenAddsToABatchOfTheOperatorAndDoesNotCloseIt() async throws {
        try await APIServer.run(gate: try Self.gate()) { (server) async throws in
            func push(_ field: String, _ token: String) async throws -> Int {
                let job = #"{"source":"data:,a","batch":"spring"\#(field)}"#
                let body = ["--header", "Content-Type: application/json", "--data", job]
                return try await server.ask("jobs", body + Self.header(token)).status
            }
            let key = APIServer.keys.batch("spring")
            _ = try await server.send(["HSET", .string(key), "total", "1", "own", "0"])
            #expect(try await push("", "importer-token-1") == 202)
            #expect(try await push(#","batchSize":1"#, "importer-token-1") == 403)
            #expect(try await push(#","batchSize":4"#, "admin-token-0001") == 202)
            _ = try await server.send(["HSET", .string(key), "expected", "4", "closed", "1"])
            #expect(try await push(#","batchSize":1"#, "importer-token-1") == 202, "only the first number counts")
            _ = try await server.send(["HSET", .string(key), "submitter", "the command line"])
            #expect(try await push("", "importer-token-1") == 403)
            #expect(try await push("", "admin-token-0001") == 202)
            #expect(try await server.send(["HGET", .string(key), "owner"]).string == nil)
        }
    }

    /// With the scope of a requeued job, a job would take an id of another client's batch.
    @Test func aJobHasTheScopeOfItsOwnBatch() async throws {
        try await APIServer.run(gate: try Self.gate()) { (server) async throws in
            let job = #"{"id":"a","source":"data:,a","requeuedFrom":"spring"}"#
            let body = ["--header", "Content-Type: application/json", "--data", job]
            #expect(try await server.ask("jobs", body + Self.header("other-token-0001")).status == 202)
            let pushed = try await server.send(["LINDEX", .string(APIServer.keys.jobs), "0"]).string
            #expect(try Job(json: Data((pushed ?? "").utf8)).requeuedFrom == nil)
        }
    }

    /// A token that knows the name of a future batch of the command line would be able to cancel it.
    @Test func theCommandLineJoinsNoBatchOfAToken() async throws {
        try await APIServer.run(gate: try Self.gate()) { (server) async throws in
            let job = #"{"source":"data:,a","batch":"spring"}"#
            let body = ["--header", "Content-Type: application/json", "--data", job]
            #expect(try await server.ask("jobs", body + Self.header("importer-token-1")).status == 202)
            let client = server.redis.client()
            defer { client.close() }
            let submitter = BatchSubmitter(queue: JobQueue(client, keys: APIServer.keys), batch: "spring")
            try await submitter.add(Data(Self.job.utf8))
            let error = await #expect(throws: RedisError.self) { try await submitter.flush() }
            #expect(error?.code == .batchExists)
        }
    }

    /// A batch of the command line, or of a server of an earlier version.
    @Test func aBatchWithoutAnOwnerIsTheOperators() async throws {
        try await APIServer.run(gate: try Self.gate()) { (server) async throws in
            let client = server.redis.client()
            defer { client.close() }
            let queue = JobQueue(client, keys: APIServer.keys)
            let submitter = BatchSubmitter(queue: queue, batch: "spring")
            try await submitter.add(Data(Self.job.utf8))
            try await submitter.flush()
            #expect(try await Self.change("spring", "cancel", "importer-token-1", at: server).status == 403)
            #expect(try await Self.change("spring", "cancel", "admin-token-0001", at: server).status == 200)
        }
    }

    /// A list with an invalid line cancels its batch, which must not be another's.
    @Test func aBatchOfThePublicListsIsNotTakenOver() async throws {
        try await APIServer.run(gate: try Self.gate()) { (server) async throws in
            let key = APIServer.keys.batch("spring")
            _ = try await server.send(["HSET", .string(key), "ledger", "1", "total", "1", "own", "0"])
            let lines = Array(repeating: Self.job, count: 600) + ["{"]
            let list = APIServer.list + Self.header("importer-token-1")
            #expect(try await server.submit(lines, "name=spring", list).status == 409)
            let fields = try await server.send(["HMGET", .string(key), "closed", "owner", "submitted"]).array ?? []
            #expect(fields.count == 3 && fields.allSatisfy { $0.string == nil })
        }
    }
}
