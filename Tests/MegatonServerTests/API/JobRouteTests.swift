import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster
@testable import MegatonServer

/// Single jobs through HTTP.
@Suite(.timeLimit(.minutes(2))) struct JobRouteTests {
    private static func options(_ body: String, type: String = "application/json") -> [String] {
        ["--header", "Content-Type: \(type)", "--data-binary", body]
    }

    @Test(arguments: Job.Priority.allCases) func aJobIsPushedToTheListOfItsPriority(_ priority: Job.Priority)
        async throws
    {
        try await APIServer.run { (server) async throws in
            let json = #"{"source":"data:,a","priority":"\#(priority.rawValue)","key":"order-12"}"#
            let answer = try await server.ask("jobs", Self.options(json))
            #expect(answer.status == 202, "\(answer.body)")
            let id = try #require(try answer.object()["id"] as? String)
            let pushed = try await server.send(["LINDEX", .string(APIServer.keys.jobs(priority)), "0"]).string
            let job = try Job(json: Data((pushed ?? "").utf8))
            #expect(job.id == id && job.idempotencyKey == "order-12")
        }
    }

    /// Fault: a client could end the jobs of `--render cluster` with a failing job of the same name.
    @Test(arguments: ["id", "key"]) func aJobCannotHaveTheNameOfAnImage(_ field: String) async throws {
        let url = try #require(URL(string: "https://h.example/a"))
        let made = RenditionJob(Rendition(width: 8), of: url, replacing: nil)
        try await APIServer.run { (server) async throws in
            let json = #"{"source":"data:,a","\#(field)":"\#(made.id)"}"#
            let answer = try await server.ask("jobs", Self.options(json))
            let problem = "The body is no job: \(field) begins with megaton-image-"
            #expect(answer.status == 400, "\(answer.body)")
            #expect(try answer.detail().hasPrefix(problem), "\(answer.body)")
            let submitted = try await server.submit([json], "name=spring")
            #expect(submitted.status == (field == "key" ? 400 : 201), "\(submitted.body)")
        }
    }

    @Test func aJobKeepsItsID() async throws {
        try await APIServer.run { (server) async throws in
            let answer = try await server.ask("jobs", Self.options(#"{"id":7,"source":"data:,a"}"#))
            #expect(try answer.object()["id"] as? String == "7")
        }
    }

    @Test(
        arguments: [
            (#""id":7"#, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "b7ad6b7169203331"),
            (
                #""traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00""#,
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00f067aa0ba902b7"
            ),
            (#""id":7"#, "cc-no-trace", nil),
        ] as [(String, String, String?)]
    ) func aJobContinuesTheTraceOfItsRequest(
        _ field: String,
        _ header: String,
        _ parent: String?
    ) async throws {
        try await APIServer.run { (server) async throws in
            let options = Self.options("{\"source\":\"data:,a\",\(field)}") + ["--header", "traceparent: \(header)"]
            let answer = try await server.ask("jobs", options)
            #expect(answer.status == 202, "\(answer.body)")
            let pushed = try await server.send(["LINDEX", .string(APIServer.keys.jobs(.normal)), "0"]).string
            let job = try Job(json: Data((pushed ?? "").utf8))
            #expect(job.traceparent?.split(separator: "-").dropFirst(2).first.map(String.init) == parent)
        }
    }

    @Test(arguments: [
        (#"{"source":""}"#, "The body is no job: source is empty"),
        (#"{"sorce":"a"}"#, "The body is no job: "), ("{", "The body is no job: "),
        (#"{"sources":["data:,a"]}"#, "The body is a pack"),
    ]) func anInvalidJobIsRefused(_ body: String, _ beginning: String) async throws {
        try await APIServer.run { (server) async throws in
            let answer = try await server.ask("jobs", Self.options(body))
            #expect(answer.status == 400)
            #expect(try answer.detail().hasPrefix(beginning), "\(answer.body)")
            // A suggestion ends the sentence.
            #expect(try !answer.detail().contains("?."), "\(answer.body)")
        }
    }

    @Test func aJobThatIsTooLargeIsRefused() async throws {
        try await APIServer.run { (server) async throws in
            let json = Data(#"{"source":"data:,\#(String(repeating: "a", count: Job.maximumSize))"}"#.utf8)
            let file = try server.directory.write(json, to: "job.json")
            let answer = try await server.ask("jobs", Self.options("@\(file)") + ["--header", "Expect:"])
            #expect(answer.status == 413)
        }
    }

    @Test func anotherTypeIsRefused() async throws {
        try await APIServer.run { (server) async throws in
            let answer = try await server.ask("jobs", Self.options("{}", type: "text/plain"))
            #expect(answer.status == 415)
        }
    }

    /// Fault: a compressed job was "no valid JSON".
    @Test func aCompressedBodyIsRefused() async throws {
        try await APIServer.run { (server) async throws in
            let options = Self.options("{}") + ["--header", "Content-Encoding: gzip"]
            let answer = try await server.ask("jobs", options)
            #expect(answer.status == 415 && answer.field("Accept-Encoding") == "identity")
            #expect(try answer.detail().contains("Content-Encoding"))
            let plain = Self.options(#"{"source":"data:,a"}"#) + ["--header", "Content-Encoding: identity"]
            #expect(try await server.ask("jobs", plain).status == 202)
            let empty = Self.options(#"{"source":"data:,b"}"#) + ["--header", "Content-Encoding;"]
            #expect(try await server.ask("jobs", empty).status == 202)
        }
    }

    @Test func aBatchThatHasEndedTakesNoJobs() async throws {
        try await APIServer.run { (server) async throws in
            let options = Self.options(#"{"source":"data:,a","batch":"spring"}"#)
            let key = APIServer.keys.batch("spring")
            #expect(try await server.ask("jobs", options).status == 202, "there is no such batch")
            _ = try await server.send(["HSET", .string(key), "total", "1", "closed", "1"])
            #expect(try await server.ask("jobs", options).status == 202, "jobs of a closed batch are awaited")
            _ = try await server.send(["HSET", .string(key), "done", "1", "finished", "1"])
            let refused = try await server.ask("jobs", options)
            #expect(refused.status == 409)
            #expect(try refused.detail().hasPrefix("The batch spring has ended and takes no more jobs: push this job"))
            #expect(try await server.send(["LLEN", .string(APIServer.keys.jobs)]).int == 2)
        }
    }

    @Test func aJobThatTheQueueDoesNotKnowIsNotFound() async throws {
        try await APIServer.run { (server) async throws in
            _ = try await server.ask("jobs", Self.options(#"{"id":"a","source":"data:,a"}"#))
            let answer = try await server.ask("jobs/a?batch=spring")
            #expect(answer.status == 404)
            #expect(try answer.detail().contains("1 job waits to be read, and it may be among them"))
            #expect(try await server.ask("jobs/a%20b").status == 400)
            #expect(try await server.ask("jobs/a?batch=").status == 400)
        }
    }

    @Test func anAdmittedJobHasAState() async throws {
        try await APIServer.run { (server) async throws in
            // No worker: a coordinator admits the job, which then waits.
            let coordinator = try Coordinator(
                redis: server.redis.url,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await coordinator.run() }
                defer { group.cancelAll() }
                _ = try await server.ask("jobs", Self.options(#"{"id":"a","source":"data:,a"}"#))
                try await server.redis.wait(forChangesOf: [APIServer.keys.meta]) { (redis) async throws in
                    try await redis.send(["HLEN", .string(APIServer.keys.meta)]).int == 1
                }
                let states = try await server.ask("jobs/a").object()["states"] as? [[String: Any]]
                #expect(states?.count == 1 && states?.first?["stage"] as? String == "ready")
            }
        }
    }
}
