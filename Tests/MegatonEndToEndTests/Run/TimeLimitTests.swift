import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCLI
@testable import MegatonCommandLine

/// Options that limit the time of runs, waits and fetches.
@Suite(.serialized, .timeLimit(.minutes(2))) struct TimeLimitTests {
    private let failing: @Sendable (String) -> OriginServer.Answer = { _ in .init(status: 500) }

    @Test func aRunThatIsOutOfTimeCancelsWhatIsLeft() async throws {
        let home = try RunTests.Home()
        try await OriginServer.run(answer: failing) { (origin) async throws in
            let ending = try await home.run([
                origin.url("/a.png").absoluteString, "--allow-private", "--workers", "1", "--attempts", "100",
                "--timeout", "5",
            ])
            #expect(ending.code == 75 && ending.errors.contains("--timeout"), "\(ending.errors)")
            #expect(try home.summary(ending)["cancelled"] as? Int == 1)
        }
    }

    /// Fault: while the private Redis loaded its cache, neither a signal nor the end of `--timeout` had any effect.
    @Test func theStartOfThePrivateRedisCanBeInterrupted() async throws {
        let shutdown = ShutdownSignal()
        shutdown.raise(to: .drain)
        let interrupted = EmbeddedRedis(size: 64 << 20, isTemporary: true, shutdown: shutdown)
        await #expect { try await interrupted.run { _ in () } } throws: { ($0 as? CLIError)?.code == 130 }
        let late = EmbeddedRedis(size: 64 << 20, isTemporary: true, deadline: .now)
        await #expect { try await late.run { _ in () } } throws: { ($0 as? CLIError)?.code == 75 }
    }

    /// Fault: the time of `--timeout` started only when the workers were ready.
    @Test func theTimeOfARunCountsFromItsBegin() async throws {
        let home = try RunTests.Home()
        let ending = try await home.run(["https://example.org/a.png", "--workers", "1", "--timeout", "0.001"])
        #expect(ending.code == 75 && ending.errors.contains("nothing was begun"), "\(ending.errors)")
    }

    @Test func aSubmitterThatIsOutOfTimeStopsWaitingAndTheBatchGoesOn() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let submit = [
                "submit", "https://example.org/a.png", "--batch", "b", "--redis", server.url, "--timeout", "1",
            ]
            #expect(await (try ProgramUnderTest.megaton(submit)).ending().code == 64, "without --wait nothing waits")
            let ending = await (try ProgramUnderTest.megaton(submit + ["--wait", "--json"])).ending()
            #expect(ending.code == 75 && ending.errors.contains("megaton batch wait b"), "\(ending.errors)")
            #expect(ending.output == #"{"batch":"b","jobs":1}"# + "\n")
            let client = server.client()
            defer { client.close() }
            #expect(try await client.send(["LLEN", "megaton:{default}:2:jobs:b"]).int == 1)
            #expect(try await client.send(["SISMEMBER", "megaton:{default}:2:cancelled", "b"]).int == 0)
        }
    }

    /// Fault: a paused queue was not mentioned, and at the end of the time the waiting jobs were said to continue.
    @Test(arguments: [("pause", "the queue is paused"), ("drain", "the queue is draining")])
    func aSubmitterLearnsWhyItsJobsWait(_ command: String, _ reason: String) async throws {
        try await RedisServerProcess.run { (server) async throws in
            let pause = ["queue", command, "--redis", server.url]
            #expect(await (try ProgramUnderTest.megaton(pause)).ending().code == 0)
            let submit = [
                "submit", "https://example.org/a.png", "--batch", "b", "--redis", server.url, "--timeout", "1",
                "--wait",
            ]
            let ending = await (try ProgramUnderTest.megaton(submit)).ending()
            #expect(ending.errors.contains("the jobs will wait: \(reason); megaton queue resume"), "\(ending.errors)")
            #expect(ending.errors.contains("the jobs will wait: the cluster has no worker and no coordinator now"))
            #expect(ending.code == 75 && ending.errors.contains("the others wait: \(reason)"), "\(ending.errors)")
        }
    }

    /// Fault: the progress stood still when the last worker had gone, and nothing said why.
    @Test func aSubmitterLearnsThatNoWorkerIsLeft() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let submit = ["submit", "https://example.org/a.png", "--redis", server.url, "--wait", "--timeout"]
            let ending = await (try ProgramUnderTest.megaton(submit + ["1"])).ending()
            #expect(ending.code == 75, "\(ending.errors)")
            #expect(ending.errors.contains("the others wait: the cluster has no worker"), "\(ending.errors)")
            let waiting = try ProgramUnderTest.megaton(submit + ["60"])
            try await waiting.waitForErrors { $0.contains("the jobs wait: the cluster has no worker") }
            waiting.send(SIGINT)
            #expect(await waiting.ending().code == 130)
        }
    }

    @Test(
        arguments: [
            (["--fetch-timeout", "0.5"], "timed_out"), (["--stall-timeout", "1"], "too_slow"),
        ]
    )
    func aFetchHasTheTimeThatItIsGiven(_ options: [String], _ code: String) async throws {
        let home = try RunTests.Home()
        let drip = OriginStream(piece: Data(count: 1), interval: .milliseconds(100))
        let answer: @Sendable (String) -> OriginServer.Answer = { _ in .init(announcedLength: 100_000, stream: drip) }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            let url = origin.url("/a.png").absoluteString
            let ending = try await home.run([url, "--allow-private", "--workers", "1", "--attempts", "1"] + options)
            #expect(ending.code == 2, "\(ending.errors)")
            #expect(try home.ledger().map { $0.error?.code } == [code])
        }
    }

    @Test func aRetryAfterBeyondTheLongestWaitIsAFailure() async throws {
        let home = try RunTests.Home()
        let answer: @Sendable (String) -> OriginServer.Answer = { _ in
            .init(status: 503, headers: [("Retry-After", "121")])
        }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            let ending = try await home.run([origin.url("/a.png").absoluteString, "--allow-private", "--workers", "1"])
            #expect(ending.code == 2, "\(ending.errors)")
            let outcome = try #require(try home.ledger().first)
            #expect(outcome.attempts == 1 && outcome.error?.message.contains("121 s") == true, "\(outcome)")
            #expect(origin.total == 1)
        }
    }
}
