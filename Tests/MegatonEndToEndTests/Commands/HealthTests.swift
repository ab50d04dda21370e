import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

/// Health checks and metrics of processes with `--health`.
@Suite(.timeLimit(.minutes(2))) struct HealthTests {
    /// The status of a response; 0 if there is none.
    private func status(_ path: String, _ port: Int) async throws -> Int {
        let curl = try ProgramUnderTest(
            program: "/usr/bin/curl",
            arguments: [
                "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "http://127.0.0.1:\(port)\(path)",
            ]
        )
        return Int(await curl.ending().output) ?? 0
    }

    /// Asks until the response has the expected status. Each request takes a process, so this is no busy loop; the
    /// suite's time limit bounds it.
    private func wait(for expected: Int, at path: String, _ port: Int) async throws {
        while try await status(path, port) != expected { try Task.checkCancellation() }
    }

    // While Redis is down, readiness fails and liveness succeeds.
    @Test func aWorkerIsReadyWhileItsRedisAnswersAndAlwaysLive() async throws {
        try await RedisServerProcess.run(.init(settings: ["appendonly yes"])) { (server) async throws in
            let port = try FreePort.find()
            let worker = try ProgramUnderTest.megaton([
                "worker", "--redis", server.url, "--lease", "1.5", "--renew-interval", "0.5", "--health",
                "127.0.0.1:\(port)",
            ])
            try await wait(for: 200, at: "/ready", port)
            #expect(try await status("/live", port) == 200)
            #expect(try await status("/", port) == 404)
            await server.crash()
            try await wait(for: 503, at: "/ready", port)
            #expect(try await status("/live", port) == 200)
            try await server.startAgain()
            try await wait(for: 200, at: "/ready", port)
            worker.send(SIGTERM)
            #expect(await worker.ending().code == 0)
        }
    }

    /// Each priority has threads of its own. A job with another one than the work that it waits for, in two pools of
    /// threads, changed threads at each step.
    @Test func allTasksOfAWorkerShareThreads() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let port = try FreePort.find()
            let worker = try ProgramUnderTest.megaton([
                "worker", "--redis", server.url, "--health", "127.0.0.1:\(port)",
            ])
            try await wait(for: 200, at: "/ready", port)
            let threads = "/proc/\(worker.pid)/task"
            let names = try FileManager.default.contentsOfDirectory(atPath: threads).compactMap { thread in
                // A thread may have ended since.
                try? String(contentsOfFile: "\(threads)/\(thread)/comm", encoding: .utf8)
            }
            // The ends of the names of libdispatch's queues, of which the kernel keeps 15 bytes.
            #expect(names.contains { $0.hasPrefix("oot.default-qos") }, "\(names)")
            #expect(!names.contains { $0.hasPrefix("r-initiated-qos") }, "\(names)")
            worker.send(SIGTERM)
            #expect(await worker.ending().code == 0)
        }
    }

    @Test func aCoordinatorReportsItsHealthFromTheStart() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let port = try FreePort.find()
            await server.crash()
            let coordinator = try ProgramUnderTest.megaton([
                "coordinator", "--redis", server.url, "--health", "127.0.0.1:\(port)",
            ])
            try await wait(for: 503, at: "/ready", port)
            #expect(try await status("/live", port) == 200)
            try await server.startAgain()
            try await wait(for: 200, at: "/ready", port)
            coordinator.send(SIGTERM)
            #expect(await coordinator.ending().code == 0)
        }
    }

    /// Exit code 69 is for Redis only, because supervisors restart the process on it.
    @Test(arguments: ["192.0.2.1:8090", "nowhere.invalid:8090"])
    func anAddressThatCannotBeHadIsAnErrorOfTheSystem(_ text: String) async throws {
        let worker = try ProgramUnderTest.megaton(["worker", "--redis", "redis://127.0.0.1:1", "--health", text])
        let ending = await worker.ending()
        #expect(ending.code == 71 && ending.errors.contains("--health \(text) cannot be"), "\(ending.errors)")
        #expect(!ending.errors.contains("SocketAddressError"))
    }

    @Test(arguments: ["8090", "localhost:", "localhost:65536", ":80"]) func anAddressThatIsNoneIsRefused(_ text: String)
        async throws
    {
        let worker = try ProgramUnderTest.megaton(["worker", "--redis", "redis://127.0.0.1:1", "--health", text])
        #expect(await worker.ending().code == 64)
    }
}
