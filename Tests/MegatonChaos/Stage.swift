import Foundation
import Logging
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOPosix

/// The environment of a scenario: the program, a directory, and helpers.
struct Stage: Sendable {
    /// The program `megaton`.
    let program: String
    /// An empty directory.
    let directory: String
    let clock = ContinuousClock()

    /// Key of the leases of running jobs: id to the lease's expiry.
    let lease = "megaton:{default}:2:lease"
    /// Key of each job's state.
    let meta = "megaton:{default}:2:meta"

    /// A client for checks and pushes, connected directly to a server.
    func client(_ url: String, timeout: Duration = .seconds(5)) throws -> RedisClient {
        var configuration = try RedisConfiguration(url: url)
        configuration.commandTimeout = timeout
        return RedisClient(
            configuration,
            role: "chaos",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "chaos") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    /// Polls until the condition holds.
    ///
    /// - Parameter interval: polling interval, by which the result may be too long.
    /// - Returns: the time it took; nil if the condition did not hold in time.
    func wait(
        atMost limit: Duration,
        every interval: Duration = .milliseconds(50),
        until condition: () async throws -> Bool
    ) async throws -> Duration? {
        let start = ContinuousClock.now
        while start.duration(to: .now) < limit {
            // The wait may last through a fault: a failing check counts as false.
            if (try? await condition()) == true { return start.duration(to: .now) }
            try await clock.sleep(for: interval)
        }
        return nil
    }

    /// The same for conditions that the rest of the scenario depends on.
    ///
    /// - Throws: ``NotReached`` if the condition did not hold in time.
    @discardableResult
    func reach(
        _ what: String,
        within limit: Duration,
        until condition: () async throws -> Bool
    ) async throws -> Duration {
        guard let took = try await wait(atMost: limit, until: condition) else {
            throw NotReached(what: "\(what) within \(Self.seconds(limit))")
        }
        return took
    }

    /// Waits until a Redis that was started answers.
    func answers(_ url: String) async throws {
        let client = try client(url)
        defer { client.close() }
        try await reach("an answer of \(url)", within: .seconds(30)) {
            try await client.send(["PING"]).string == "PONG"
        }
    }

    /// Waits until `workers` workers have registered and a coordinator leads.
    func ready(_ client: RedisClient, workers: Int) async throws {
        try await reach("a leader and \(workers) workers", within: .seconds(60)) {
            let count = try await client.send(["ZCARD", "megaton:{default}:2:workers"]).int ?? 0
            let leads = try await client.send(["EXISTS", "megaton:{default}:2:leader"]).int ?? 0
            return count >= workers && leads == 1
        }
    }

    /// The scenario did not reach the state that it was to check.
    struct NotReached: Error {
        let what: String
    }

    // MARK: - Server statistics

    /// Milliseconds since 1970 by Redis' own clock.
    static func time(_ redis: RedisClient) async throws -> Int {
        let parts = (try await redis.send(["TIME"]).array ?? []).compactMap(\.int)
        guard parts.count == 2 else { throw NotReached(what: "the time of Redis") }
        return parts[0] * 1000 + parts[1] / 1000
    }

    /// A number from INFO.
    static func info(_ field: String, in section: String, _ redis: RedisClient) async throws -> Int {
        let text = try await redis.send(["INFO", .string(section)]).string ?? ""
        let line = text.split(whereSeparator: \.isNewline).first { $0.hasPrefix(field + ":") }
        guard let value = line.flatMap({ Int($0.dropFirst(field.count + 1)) }) else {
            throw NotReached(what: "\(field) in INFO \(section)")
        }
        return value
    }

    /// Seconds with two decimals.
    static func seconds(_ duration: Duration) -> String {
        let parts = duration.components
        let seconds = Double(parts.seconds) + Double(parts.attoseconds) / 1e18
        return String(format: "%.2f s", seconds)
    }
}
