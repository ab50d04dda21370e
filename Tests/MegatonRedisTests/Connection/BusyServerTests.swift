import Logging
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonRedis

/// A Redis that is busy with a script: the handshake of new connections fails.
@Suite(.timeLimit(.minutes(2))) struct BusyServerTests {
    /// Writes nothing, so that SCRIPT KILL can end it.
    private static let endless = "#!lua flags=no-writes\nwhile true do end"

    private func code(_ body: () async throws -> Void) async -> RedisError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? RedisError)?.code
        }
    }

    // A Redis that is busy with a script for less than a command's timeout costs its clients time only.
    @Test func clientsThatConnectWhileItIsBusyAreServedSoonAfter() async throws {
        try await RedisServerProcess.run(.init(settings: ["busy-reply-threshold 100"])) { (server) async throws in
            let (blocked, killer) = (server.client("blocked"), server.client("killer"))
            defer {
                blocked.close()
                killer.close()
            }
            try await blocked.connect()
            try await killer.connect()
            async let killed = code {
                try await blocked.send(["EVAL", .string(Self.endless), "0"], timeout: .seconds(60))
            }
            while await code({ try await killer.send(["PING"]) }) != .busy, !Task.isCancelled { await Task.yield() }
            let (delays, continuation) = AsyncStream.makeStream(of: Int.self)
            let late = RedisClient(
                server.configuration,
                role: "late",
                group: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in RetryLog(delays: continuation) }
            )
            defer { late.close() }
            async let pong = late.send(["PING"], timeout: .seconds(60))
            // A delay that doubles would have reached its cap of 2 s by the tenth try.
            var tries = delays.makeAsyncIterator()
            for _ in 0..<10 {
                let delay = try #require(await tries.next())
                #expect(delay <= 500)
            }
            try await killer.send(["SCRIPT", "KILL"])
            #expect(try await pong.string == "PONG")
            #expect(await killed == .server)
        }
    }
}
