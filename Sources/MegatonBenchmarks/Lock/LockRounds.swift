import Foundation
import MegatonCommandLine
import MegatonPipeline
import MegatonRedis

/// Synchronization between the leader and the waiters of `megaton-bench lock`, by lists in the same Redis.
struct LockRounds: Sendable {
    /// Name of one benchmark, so that several can share a Redis.
    let name: String
    /// A connection for the lists alone, as its commands block.
    let redis: RedisClient

    /// Times at which the waiters of one process continued, and at which they had the entry; microseconds of
    /// `NoOpJob.now`.
    struct Wakes: Codable, Sendable {
        var woken: [Int]
        var served: [Int]
    }

    /// Seconds without a message after which the other side counts as gone.
    private static let timeout = 20
    /// Time to live of the lists, seconds.
    private static let lifetime = 60

    /// The key of a round's flight.
    func key(_ round: Int) -> CacheKey { CacheKey(.rendition, ["megaton-bench lock", name, String(round)]) }

    // MARK: - The leader's side

    func begin(_ round: Int, processes: Int) async throws {
        for process in 0..<processes { try await push(String(round), to: "go:\(process)") }
        for _ in 0..<processes { _ = try await next(of: "waiting") }
    }

    /// Waits for the results of all processes.
    func wakes(processes: Int) async throws -> Wakes {
        var all = Wakes(woken: [], served: [])
        for _ in 0..<processes {
            let wakes = try JSONDecoder().decode(Wakes.self, from: Data(try await next(of: "wakes").utf8))
            all.woken += wakes.woken
            all.served += wakes.served
        }
        return all
    }

    // MARK: - The waiters' side

    /// The next round that the leader has begun.
    func next(process: Int) async throws -> Int { Int(try await next(of: "go:\(process)")) ?? 0 }

    func reportWaiting() async throws { try await push("", to: "waiting") }

    func report(_ wakes: Wakes) async throws { try await push(try JSONText.line(wakes), to: "wakes") }

    // MARK: -

    private func push(_ text: String, to list: String) async throws {
        let list = RedisArgument.string("megaton:bench:\(name):\(list)")
        let replies = try await redis.pipeline([
            ["RPUSH", list, .string(text)], ["EXPIRE", list, .int(Self.lifetime)],
        ])
        for case .error(let text) in replies { throw RedisError(reply: text) }
    }

    private func next(of list: String) async throws -> String {
        let reply = try await redis.send(
            ["BLPOP", .string("megaton:bench:\(name):\(list)"), .int(Self.timeout)],
            timeout: .seconds(Self.timeout + 2)
        )
        guard let text = reply.array?.last?.string else {
            throw CLIError.broken(
                "the processes of the benchmark received no message from each other for \(Self.timeout) s."
            )
        }
        return text
    }
}
