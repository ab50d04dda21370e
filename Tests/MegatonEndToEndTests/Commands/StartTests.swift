import ArgumentParser
import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCLI

/// The start of the programs that run until SIGTERM: before Redis, without Redis, and under systemd.
@Suite(.timeLimit(.minutes(2))) struct StartTests {
    /// Waits until a process has written a word. Each poll reads a file; the suite's time limit bounds them.
    private func wait(for word: String, in process: ProgramUnderTest) async throws {
        while !process.errors.contains(word) {
            try Task.checkCancellation()
            guard process.isRunning else {
                Issue.record("ended with \(process.code ?? -1): \(process.errors)")
                return
            }
            await Task.yield()
        }
    }

    /// Fault: units stayed dead if Redis started a few seconds after them.
    @Test(arguments: ["worker", "coordinator"]) func aProcessWaitsForARedisThatComesLater(_ command: String)
        async throws
    {
        try await RedisServerProcess.run { (server) async throws in
            await server.crash()
            let process = try ProgramUnderTest.megaton([command, "--redis", server.url])
            try await wait(for: "waiting for Redis", in: process)
            try await server.startAgain()
            try await wait(for: "Redis answers", in: process)
            try await wait(for: "\(command) started", in: process)
            process.send(SIGTERM)
            #expect(await process.ending().code == 0, "\(process.errors)")
        }
    }

    /// A worker's threads do not interrupt each other; a coordinator answers at once.
    @Test(arguments: [("worker", CInt(3)), ("coordinator", SCHED_OTHER)])
    func aWorkerIsScheduledForMuchWork(_ command: String, _ policy: CInt) async throws {
        let process = try ProgramUnderTest.megaton([command, "--redis", "unix:///nonexistent/redis.sock"])
        try await wait(for: "waiting for Redis", in: process)
        let threads = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process.pid)/task")
        #expect(threads.count > 1)
        // -1 is a thread that has ended meanwhile.
        let policies = Set(threads.compactMap(pid_t.init).map { sched_getscheduler($0) }).subtracting([-1])
        #expect(policies == [policy])
        process.send(SIGTERM)
        #expect(await process.ending().code == 0, "\(process.errors)")
    }

    @Test(arguments: ["worker", "coordinator"]) func sigtermEndsTheWaiting(_ command: String) async throws {
        let process = try ProgramUnderTest.megaton([command, "--redis", "unix:///nonexistent/redis.sock"])
        try await wait(for: "waiting for Redis", in: process)
        process.send(SIGTERM)
        #expect(await process.ending().code == 0, "\(process.errors)")
    }

    @Test(arguments: ["worker", "coordinator"]) func withoutWaitingAMissingRedisIsReportedAtOnce(_ command: String)
        async throws
    {
        let arguments = [command, "--redis", "unix:///nonexistent/redis.sock", "--wait-for-redis", "0"]
        let ending = await (try ProgramUnderTest.megaton(arguments)).ending()
        #expect(ending.code == 69 && ending.errors.contains("/nonexistent/redis.sock"), "\(ending.errors)")
        let wrong = await (try ProgramUnderTest.megaton([command, "--wait-for-redis", "-1"])).ending()
        #expect(wrong.code == 64, "\(wrong.errors)")
    }

    @Test func aProcessWaitsForAMinuteByDefault() throws {
        #expect(try StartOptions.parse([]).waitForRedis == 60)
    }

    /// Jobs of Megaton 0.1 are not read by this version, and a process of a later one may work on the queue.
    @Test(arguments: ["worker", "coordinator"], ["leader", "protocol"])
    func besideAnotherProtocolAProcessDoesNotStart(_ command: String, _ key: String) async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            try await client.send(["SET", .string("megaton:{default}:\(key)"), "3-3", "PX", "60000"])
            let ending = await (try ProgramUnderTest.megaton([command, "--redis", server.url])).ending()
            #expect(ending.code == 69 && ending.errors.contains("docs/upgrading.md"), "\(ending.errors)")
            #expect(try await client.send(["EXISTS", "megaton:{default}:2:workers"]).int == 0)
        }
    }

    @Test func submitBesideMegaton01SaysThatTheJobsWait() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            try await client.send(["SET", "megaton:{default}:leader", "old:1:a", "PX", "60000"])
            let arguments = ["submit", "https://example.org/a.jpg", "--size", "8x8", "--redis", server.url]
            let ending = await (try ProgramUnderTest.megaton(arguments)).ending()
            #expect(ending.code == 0 && ending.errors.contains("in use by Megaton 0.1 or 0.2"), "\(ending.errors)")
            let status = await (try ProgramUnderTest.megaton(["status", "--redis", server.url])).ending()
            #expect(status.output.contains("old:1:a leads"), "\(status.output)")
        }
    }

    @Test func aCacheRedisAloneIsAnsweredWithWhatWasGiven() async throws {
        let ending = await
            (try ProgramUnderTest.megaton(
                ["run", "https://example.org/a.jpg", "--output", "/nonexistent"],
                environment: ["MEGATON_CACHE_REDIS": "redis://127.0.0.1:1", "MEGATON_REDIS": ""]
            )).ending()
        #expect(ending.code == 64 && ending.errors.contains("MEGATON_CACHE_REDIS is set"), "\(ending.errors)")
    }

    /// The units restart without a limit, and give an intruder few rights.
    @Test(arguments: ["megaton-coordinator.service", "megaton-serve.service", "megaton-worker@.service"])
    func unitsAreHardened(_ unit: String) async throws {
        let directory = try TestDirectory()
        let text = try Repository.text("deploy/systemd/\(unit)")
        #expect(text.contains("\nStartLimitIntervalSec=0\n") && text.contains("\nRestart=always\n"))
        #expect(text.contains("\nType=notify\nNotifyAccess=main\nWatchdogSec=60\n"))
        let file = try directory.write(Data(text.utf8), to: unit.replacing("@", with: "@1"))
        let analysis = await
            (try ProgramUnderTest(
                program: "/usr/bin/systemd-analyze",
                arguments: ["security", "--offline=true", "--no-pager", file]
            )).ending()
        let level = analysis.output.firstMatch(of: /Overall exposure level for .*: ([0-9.]+)/)
        let exposure = try #require(level.flatMap { Double($0.1) }, "\(analysis.output)\(analysis.errors)")
        #expect(exposure <= 2.5)
    }

    @Test(arguments: [
        ("cache-stats", "stats"), ("cache-purge", "cache purge"), ("cache-top", "cache top"),
        ("cache-watch", "cache watch"),
    ])
    func administrationScriptsPreferAnInstalledProgram(_ script: String, _ command: String) async throws {
        let directory = try TestDirectory()
        let program = try directory.write(Data("#!/bin/sh\necho installed \"$@\"\n".utf8), to: "megaton")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: program)
        let ending = await
            (try ProgramUnderTest(
                program: "\(Repository.root)/scripts/\(script)",
                arguments: ["--json"],
                environment: ["PATH": "\(directory.path):/usr/bin:/bin"]
            )).ending()
        #expect(ending.output == "installed \(command) --json\n", "\(ending.errors)")
    }
}
