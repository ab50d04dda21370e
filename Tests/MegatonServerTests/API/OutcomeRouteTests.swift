import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster
@testable import MegatonServer

/// Outcomes through HTTP: pages, long polls and event streams.
@Suite(.timeLimit(.minutes(2))) struct OutcomeRouteTests {
    /// The events of a stream: their fields by name.
    private static func events(_ body: String) -> [[String: String]] {
        body.components(separatedBy: "\n\n").compactMap { block in
            let fields = block.split(separator: "\n").compactMap { line -> (String, String)? in
                guard let colon = line.range(of: ": "), colon.lowerBound != line.startIndex else { return nil }
                return (String(line[..<colon.lowerBound]), String(line[colon.upperBound...]))
            }
            return fields.isEmpty ? nil : Dictionary(fields) { $1 }
        }
    }

    // MARK: - Pages

    @Test func outcomesAreReadTwice() async throws {
        try await APIServer.run { (server) async throws in
            try await server.makeBatch("spring", outcomes: 5)
            let first = try await server.ask("batches/spring/outcomes?from=2&limit=3")
            #expect(first.status == 200 && first.field("Content-Type") == "application/x-ndjson")
            #expect(first.field("Megaton-Next") == "5" && first.field("Megaton-Finished") == "false")
            #expect(first.body.split(separator: "\n").count == 3 && first.body.contains(#""id":"j1""#))
            let again = try await server.ask("batches/spring/outcomes?from=2&limit=3")
            #expect(again.body == first.body)
            let rest = try await server.ask("batches/spring/outcomes?from=5")
            #expect(rest.body.split(separator: "\n").count == 1 && rest.field("Megaton-Finished") == "true")
            #expect(rest.field("Megaton-Next") == "6")
        }
    }

    @Test func deletedOutcomesAreCounted() async throws {
        try await APIServer.run { (server) async throws in
            try await server.makeBatch("spring", outcomes: 5)
            _ = try await JobQueue(server.redis.client(), keys: APIServer.keys)
                .results(of: "spring", after: 2, digest: "", limit: 1)
            let answer = try await server.ask("batches/spring/outcomes")
            #expect(answer.field("Megaton-Missing") == "2" && answer.field("Megaton-Next") == "6")
            #expect(answer.body.split(separator: "\n").count == 3)
        }
    }

    @Test func aPositionBehindAllOutcomesBeginsAgain() async throws {
        try await APIServer.run { (server) async throws in
            try await server.makeBatch("spring", outcomes: 2)
            let answer = try await server.ask("batches/spring/outcomes?from=100")
            #expect(answer.field("Megaton-Reset") == "true" && answer.field("Megaton-Next") == "3")
            #expect(answer.body.split(separator: "\n").count == 2)
        }
    }

    @Test(arguments: ["from=", "from=-1", "from=0", "from=a", "from=1.2", "limit=0", "limit=1001", "wait=61", "form=1"])
    func anInvalidArgumentIsRefused(_ query: String) async throws {
        try await APIServer.run { (server) async throws in
            try await server.makeBatch("spring", outcomes: 1)
            let answer = try await server.ask("batches/spring/outcomes?\(query)")
            #expect(answer.status == 400, "\(answer.body)")
            #expect(try !answer.detail().isEmpty)
        }
    }

    @Test func aBatchWithoutALedgerHasNoOutcomes() async throws {
        try await APIServer.run { (server) async throws in
            _ = try await server.send(["HSET", .string(APIServer.keys.batch("spring")), "total", "1"])
            for path in ["outcomes", "events"] {
                let answer = try await server.ask("batches/spring/\(path)")
                #expect(answer.status == 409)
                #expect(try answer.detail().contains("without a ledger"))
            }
        }
    }

    @Test func aLongPollWaits() async throws {
        try await APIServer.run { (server) async throws in
            try await server.makeBatch("spring", outcomes: 1, isFinished: false)
            let begin = ContinuousClock.now
            let empty = try await server.ask("batches/spring/outcomes?from=2&wait=1")
            #expect(begin.duration(to: .now) >= .seconds(1))
            #expect(empty.body.isEmpty && empty.field("Megaton-Next") == "2")
            #expect(empty.field("Megaton-Finished") == "false")
            let poll = try server.start("batches/spring/outcomes?from=2&wait=60")
            try await server.addOutcomes(1..<2, to: "spring")
            let answer = try APIServer.Answer(await poll.ending().output)
            #expect(answer.body.contains(#""id":"j1""#) && answer.field("Megaton-Next") == "3")
            #expect(begin.duration(to: .now) < .seconds(50))
        }
    }

    /// Fault: clients that had given up kept their places until the end of the wait, a minute at most.
    @Test(.timeLimit(.minutes(1))) func aLongPollEndsWithItsClient() async throws {
        let polls = RequestLimit(1, of: "long polls")
        try await APIServer.run(polls: polls) { (server) async throws in
            try await server.makeBatch("spring", outcomes: 1, isFinished: false)
            let poll = try server.start("batches/spring/outcomes?from=2&wait=60")
            while polls.count == 0 { try await Task.sleep(for: .milliseconds(10)) }
            poll.send(SIGKILL)
            _ = await poll.ending()
            while polls.count > 0 { try await Task.sleep(for: .milliseconds(10)) }
        }
    }

    // MARK: - Events

    @Test func aStreamHasAllOutcomesOfABatch() async throws {
        try await APIServer.run { (server) async throws in
            let lines = (0..<20).map { #"{"id":"j\#($0)","source":"data:,no%20image"}"# }
            #expect(try await server.submit(lines, "name=spring").status == 201)
            let stream = try server.start("batches/spring/events")
            try await stream.waitForOutput { $0.contains("event: progress\n") }
            var configuration = Worker.Configuration(control: server.redis.configuration)
            configuration.takeoverDelay = .zero
            let worker = try Worker(
                configuration,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                onHungRender: {}
            )
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await worker.run() }
                defer { group.cancelAll() }
                let answer = try APIServer.Answer(await stream.ending().output)
                #expect(answer.status == 200 && answer.field("Content-Type") == "text/event-stream")
                let events = Self.events(answer.body)
                let outcomes = events.filter { $0["event"] == "outcome" }
                #expect(outcomes.compactMap { $0["id"] } == (2...21).map { "\($0)" })
                #expect(outcomes.allSatisfy { $0["data"]?.contains(#""status":"failed""#) == true })
                #expect(events.last?["event"] == "end")
                #expect(events.last?["data"]?.contains(#""failed":20"#) == true)
            }
        }
    }

    /// A client that reads nothing more gives its place back.
    @Test func aStreamThatIsNotReadEnds() async throws {
        let streams = EventStreams(1, of: "event streams", writeLimit: .seconds(1))
        try await APIServer.run(streams: streams) { (server) async throws in
            try await server.makeBatch("spring", outcomes: 1, isFinished: false)
            // More than the buffers of both sockets hold.
            let line = #"{"id":"long","source":"data:,\#(String(repeating: "a", count: 900_000))"}"#
            for _ in 0..<24 {
                _ = try await server.send(["RPUSH", .string(APIServer.keys.results("spring")), .string(line)])
            }
            let request = "GET /api/v1/batches/spring/events HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"
            let script =
                "exec 3<>/dev/tcp/127.0.0.1/\(server.port); printf '\(request)' >&3; "
                + "read -r line <&3; echo \"$line\"; exec sleep 100"
            let client = try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", script])
            try await client.waitForOutput { $0.contains("HTTP/1.1 200") }
            // Each question takes a process, so this is no busy loop; the suite's time limit bounds it.
            let brief = ["--max-time", "5"]
            while try await server.ask("batches/spring/events?from=26", brief).status == 503 {
                try Task.checkCancellation()
            }
            client.send(SIGKILL)
            _ = await client.ending()
        }
    }

    /// Fault: a thousand clients that read nothing kept as many pages of a megabyte and more in memory.
    @Test func largeEventsWaitForAPlace() async throws {
        let largePages = RequestLimit(1, of: "large pages of events")
        try await APIServer.run(largePages: largePages) { (server) async throws in
            try await server.makeBatch("spring", outcomes: 1)
            for (id, count) in [("medium", 70_000), ("large", 900_000)] {
                let line = #"{"id":"\#(id)","source":"data:,\#(String(repeating: "a", count: count))"}"#
                _ = try await server.send(["RPUSH", .string(APIServer.keys.results("spring")), .string(line)])
            }
            var place: RequestLimit.Place? = try largePages.enter()
            let stream = try server.start("batches/spring/events")
            // The first page ends with it.
            try await stream.waitForOutput { $0.contains(#""id":"medium""#) }
            #expect(place != nil && !stream.output.contains(#""id":"large""#))
            place = nil
            let events = Self.events(try APIServer.Answer(await stream.ending().output).body)
            #expect(events.filter { $0["event"] == "outcome" }.compactMap { $0["id"] } == ["2", "3", "4"])
            #expect(events.last?["event"] == "end")
        }
    }

    @Test func aStreamContinuesBehindTheLastEvent() async throws {
        try await APIServer.run { (server) async throws in
            try await server.makeBatch("spring", outcomes: 3)
            let all = Self.events(try await server.ask("batches/spring/events").body)
            #expect(all.compactMap { $0["event"] } == ["outcome", "outcome", "outcome", "end"])
            let rest = Self.events(
                // The field counts: a client connects again by the same URL.
                try await server.ask("batches/spring/events?from=1", ["--header", "Last-Event-ID: 3"]).body
            )
            #expect(rest.compactMap { $0["event"] } == ["outcome", "end"])
            #expect(rest.first?["data"]?.contains(#""id":"j2""#) == true)
        }
    }

    /// Fault: a stream went on with the outcomes of an open batch after its token was removed.
    @Test func aStreamEndsWithItsToken() async throws {
        let token = String(repeating: "t", count: 20)
        let tokens = AccessTokens([.init(token: token, identity: AccessIdentity(name: "a", scopes: [.read, .submit]))])
        try await APIServer.run(gate: AccessGate(tokens)) { (server) async throws in
            let header = ["--header", "Authorization: Bearer \(token)"]
            let job = #"{"id":"a","source":"data:,a"}"#
            #expect(try await server.submit([job], "name=spring", APIServer.list + header).status == 201)
            let stream = try server.start("batches/spring/events", header)
            try await stream.waitForOutput { $0.contains("event: progress\n") }
            tokens.replace(with: [.init(token: token, identity: AccessIdentity(name: "a", scopes: [.read]))])
            let ending = await stream.ending()
            #expect(ending.code == 0, "the response is complete")
            let events = Self.events(try APIServer.Answer(ending.output).body)
            #expect(events.last?["event"] == "error", "\(events)")
            #expect(events.last?["data"]?.contains("The token is no longer valid") == true)
        }
    }

    @Test func aShutdownEndsStreams() async throws {
        try await APIServer.run { (server) async throws in
            try await server.makeBatch("spring", outcomes: 1, isFinished: false)
            let stream = try server.start("batches/spring/events")
            try await stream.waitForOutput { $0.contains("event: progress\n") }
            await server.shutDown()
            let ending = await stream.ending()
            #expect(ending.code == 0, "the response is complete")
            #expect(!ending.output.contains("event: end"), "the batch is not")
        }
    }
}
