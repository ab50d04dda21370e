import MegatonRedis
import Synchronization

/// A client that writes an increasing number to a key, and records the server and time of each accepted or refused
/// write.
final class ProbeWriter: Sendable {
    /// A write that was answered.
    struct Write: Sendable {
        let number: Int
        /// Port of the server that answered.
        let port: Int
        let time: ContinuousClock.Instant
    }

    private struct Log: Sendable {
        var taken: [Write] = []
        var refused: [Write] = []
        var failures: [RedisError.Code: Int] = [:]
    }

    private static let interval: Duration = .milliseconds(50)

    private let redis: RedisClient
    private let key: String
    private let log = Mutex(Log())

    init(_ redis: RedisClient, key: String) {
        self.redis = redis
        self.key = key
    }

    /// Acknowledged writes, in order.
    var taken: [Write] { log.withLock { $0.taken } }

    /// Writes refused with NOREPLICAS, in order.
    var refused: [Write] { log.withLock { $0.refused } }

    /// Writes that failed otherwise or had no answer: their number by error code.
    var failures: [RedisError.Code: Int] { log.withLock { $0.failures } }

    /// A text for reports.
    var failureText: String {
        let parts = failures.map { "\($0.value) \($0.key)" }.sorted()
        return parts.isEmpty ? "none" : parts.joined(separator: ", ")
    }

    /// Writes until the task is cancelled.
    func run(_ stage: Stage) async {
        var number = 0
        while !Task.isCancelled {
            number += 1
            await write(number)
            try? await stage.clock.sleep(for: Self.interval)  // Cancelled: the condition of the loop ends it.
        }
    }

    private func write(_ number: Int) async {
        do throws(RedisError) {
            // Pipelined on one connection: the second reply identifies the server of the first.
            let replies = try await redis.pipeline([
                ["SET", .string(key), .int(number)], ["CONFIG", "GET", "port"],
            ])
            guard replies.count == 2, let port = replies[1].dictionary["port"].flatMap({ Int($0) }) else {
                throw RedisError(.unexpectedReply, "Redis did not report its port.")
            }
            let write = Write(number: number, port: port, time: .now)
            guard case .error(let text) = replies[0] else {
                log.withLock { $0.taken.append(write) }
                return
            }
            let error = RedisError(reply: text)
            guard error.code == .notWritable, error.message.contains("NOREPLICAS") else { throw error }
            log.withLock { $0.refused.append(write) }
        } catch {
            log.withLock { $0.failures[error.code, default: 0] += 1 }
        }
    }
}
