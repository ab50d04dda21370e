import Foundation
import Logging
import MegatonCluster
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCommandLine

/// The notifications of the programs that run until SIGTERM to their service manager.
@Suite(.timeLimit(.minutes(2))) struct ServiceManagerTests {
    private let logger = Logger(label: "test")

    private func environment(_ address: String, microseconds: Int? = nil, owner: Int32? = nil) -> [String: String] {
        var variables = ["NOTIFY_SOCKET": address]
        variables["WATCHDOG_USEC"] = microseconds.map { "\($0)" }
        variables["WATCHDOG_PID"] = owner.map { "\($0)" }
        return variables
    }

    /// How often the service manager has asked whether the process hangs.
    private final class Checks: Sendable {
        private let count = Mutex(0)

        func add() -> Int {
            count.withLock { count in
                count += 1
                return count
            }
        }
    }

    @Test(arguments: ["path", "abstract"])
    func theStartAndTheEndAreNotifiedAndTheWatchdogIsAnswered(_ kind: String) async throws {
        let directory = try TestDirectory()
        let address = kind == "path" ? directory.path + "/notify" : "@" + directory.path
        let socket = try NotificationSocket(address)
        let variables = environment(address, microseconds: 100_000, owner: 7)
        let manager = try #require(ServiceManager(variables, processID: 7, logger: logger))
        let shutdown = ShutdownSignal()
        let task = Task { await manager.follow(until: shutdown, hasStarted: {}, isHung: { false }) }
        #expect(await socket.next() == "READY=1")
        #expect(await socket.next() == "WATCHDOG=1")
        #expect(await socket.next() == "WATCHDOG=1")
        shutdown.raise(to: .drain)
        // The watchdog is answered until the process has ended.
        var last = await socket.next()
        while last == "WATCHDOG=1" { last = await socket.next() }
        #expect(last == "STOPPING=1")
        #expect(await socket.next() == "WATCHDOG=1")
        task.cancel()
        await task.value
    }

    @Test func theWatchdogIsNotAnsweredWhileTheProcessHangs() async throws {
        let directory = try TestDirectory()
        let socket = try NotificationSocket(directory.path + "/notify")
        let variables = environment(directory.path + "/notify", microseconds: 100_000)
        let manager = try #require(ServiceManager(variables, processID: 7, logger: logger))
        let isOver = Switch()
        let checks = Checks()
        let (thirdCheck, third) = AsyncStream<Void>.makeStream()
        let task = Task {
            await manager.follow(until: ShutdownSignal(), hasStarted: {}) {
                if checks.add() == 3 { third.finish() }
                return !isOver.isSet
            }
        }
        #expect(await socket.next() == "READY=1")
        for await _ in thirdCheck {}
        // Answers after the first and the second check would be here.
        #expect(socket.rest().isEmpty)
        isOver.set()
        #expect(await socket.next() == "WATCHDOG=1")
        task.cancel()
        await task.value
        #expect(socket.rest().contains("STOPPING=1"))
    }

    /// A server that cannot listen has not started.
    @Test func aProcessThatDoesNotStartIsNoNotification() async throws {
        let directory = try TestDirectory()
        let socket = try NotificationSocket(directory.path + "/notify")
        let variables = environment(directory.path + "/notify", microseconds: 100_000)
        let manager = try #require(ServiceManager(variables, processID: 7, logger: logger))
        let shutdown = ShutdownSignal()
        let task = Task {
            // Ends with the task alone.
            await manager.follow(until: shutdown, hasStarted: { await shutdown.wait(for: .abort) }, isHung: { false })
        }
        task.cancel()
        await task.value
        #expect(socket.rest().isEmpty)
    }

    @Test func variablesOfAnotherProcessAndUnknownSocketsHaveNoEffect() throws {
        #expect(ServiceManager([:], processID: 7, logger: logger) == nil)
        for address in ["", "@", "/", "notify", "vsock:2:1234", "/" + String(repeating: "a", count: 107)] {
            let manager = ServiceManager(environment(address), processID: 7, logger: logger)
            #expect((manager == nil) == (address != "/"), "\(address)")
        }
        func watchdog(_ microseconds: Int?, _ owner: Int32?) throws -> Duration? {
            let variables = environment("/notify", microseconds: microseconds, owner: owner)
            return try #require(ServiceManager(variables, processID: 7, logger: logger)).watchdog
        }
        #expect(try watchdog(60_000_000, 7) == .seconds(60))
        #expect(try watchdog(60_000_000, nil) == .seconds(60))
        #expect(try watchdog(60_000_000, 8) == nil)
        #expect(try watchdog(nil, 7) == nil)
        #expect(try watchdog(0, 7) == nil)
        #expect(try watchdog(.max, 7) == .seconds(3600))
    }

    // MARK: - Programs

    /// A service manager must neither wait for Redis nor end a process that does.
    @Test(arguments: [["worker"], ["coordinator"], ["serve", "--open", "--listen", "127.0.0.1:0"]])
    func aProcessWithoutItsRedisHasStartedAndAnswersTheWatchdog(_ command: [String]) async throws {
        let directory = try TestDirectory()
        let address = directory.path + "/notify"
        let socket = try NotificationSocket(address)
        let process = try ProgramUnderTest.megaton(
            command + ["--redis", "unix://\(directory.path)/redis.sock"],
            environment: environment(address, microseconds: 500_000)
        )
        #expect(await socket.next() == "READY=1", "\(process.errors)")
        for _ in 1...3 { #expect(await socket.next() == "WATCHDOG=1", "\(process.errors)") }
        process.send(SIGTERM)
        #expect(await process.ending().code == 0, "\(process.errors)")
        #expect(socket.rest().contains("STOPPING=1"))
    }

    @Test(arguments: LongTests.sample(["worker", "coordinator"], every: 2))
    func aLostRedisIsNoReasonToStartAgain(_ command: String) async throws {
        try await RedisServerProcess.run { (server) async throws in
            let directory = try TestDirectory()
            let address = directory.path + "/notify"
            let socket = try NotificationSocket(address)
            let process = try ProgramUnderTest.megaton(
                [command, "--redis", server.url],
                environment: environment(address, microseconds: 500_000)
            )
            try await process.waitForErrors { $0.contains("\(command) started") }
            await server.crash()
            try await process.waitForErrors { $0.contains("retrying") }
            // Those from before the loss.
            _ = socket.rest()
            for _ in 1...8 { #expect(await socket.next() != nil, "\(process.errors)") }
            #expect(process.isRunning)
            process.send(SIGTERM)
            #expect(await process.ending().code == 0, "\(process.errors)")
        }
    }

    /// The service manager of a run is not that of its workers, which would notify of their own start.
    @Test func childProcessesNotifyOfNothing() async throws {
        let directory = try TestDirectory()
        let address = directory.path + "/notify"
        let socket = try NotificationSocket(address)
        let image = try directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let run = try ProgramUnderTest.megaton(
            ["run", image, "--workers", "1", "--output", directory.path + "/out"],
            environment: environment(address).merging(["XDG_CACHE_HOME": directory.path + "/cache"]) { _, new in new }
        )
        #expect(await run.ending().code == 0, "\(run.errors)")
        #expect(socket.rest().isEmpty)
    }
}
