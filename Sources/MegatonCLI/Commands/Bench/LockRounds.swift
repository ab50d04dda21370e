import Foundation
import MegatonPipeline
import MegatonRedis

/// How the leader and the waiters of `megaton bench lock` tell each other where they are: lists in the same Redis.
struct LockRounds: Sendable {
    /// Of one benchmark, so that several may share a Redis.
    let name: String
    /// A connection for the lists alone, as it blocks.
    let redis: RedisClient

    /// When the waiters of one process went on, and when they had the entry; microseconds of `BenchJob.now`.
    struct Wakes: Codable, Sendable {
        var woken: [Int]
        var served: [Int]
    }

    /// After so long without a word the others are not there any more, seconds.
    private static let patience = 20
    /// Nothing of it stays for longer, seconds.
    private static let lifetime = 60

    /// What a round's flight is about.
    func key(_ round: Int) -> CacheKey { CacheKey(.rendition, ["megaton bench lock", name, String(round)]) }

    // MARK: - The leader's side

    func begin(_ round: Int, processes: Int) async throws {
        for process in 0..<processes { try await push(String(round), to: "go:\(process)") }
        for _ in 0..<processes { _ = try await next(of: "waiting") }
    }

    /// Waits for the processes' answers.
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

    func wait() async throws { try await push("", to: "waiting") }

    func tell(_ wakes: Wakes) async throws { try await push(try JSONText.line(wakes), to: "wakes") }

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
            ["BLPOP", .string("megaton:bench:\(name):\(list)"), .int(Self.patience)],
            timeout: .seconds(Self.patience + 2)
        )
        guard let text = reply.array?.last?.string else {
            throw Failure.broken("the benchmark's processes did not hear from each other for \(Self.patience) s.")
        }
        return text
    }
}
