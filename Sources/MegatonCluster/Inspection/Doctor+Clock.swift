internal import Foundation
internal import MegatonRedis

extension Doctor {
    /// Difference that is worth a warning, seconds.
    private static let skew: Double = 1

    /// Seconds by which the server's clock is ahead of this machine's, accurate to half a round trip.
    func clockAhead(of redis: RedisClient) async throws(RedisError) -> Double {
        let before = Date().timeIntervalSince1970
        let time = (try await redis.send(["TIME"]).array ?? []).compactMap(\.int)
        let after = Date().timeIntervalSince1970
        guard time.count == 2 else { throw JobQueue.unexpected("TIME") }
        return Double(time[0]) + Double(time[1]) / 1e6 - (before + after) / 2
    }

    static func clock(_ part: Part, ahead: Double) -> Finding {
        let isFine = abs(ahead) <= skew
        return Finding(
            level: isFine ? .ok : .warning,
            subject: "\(part.rawValue): clock",
            message: isFine
                ? "within \(Int(skew)) s of this machine's"
                : "\(text(ahead)) this machine's. Leases and delays follow Redis' clock and are right all the same; the "
                    + "times that people read are not. Set the clocks by NTP."
        )
    }

    /// - Parameter ahead: seconds by which the control's clock is ahead of the cache's.
    static func clocks(_ ahead: Double) -> Finding {
        let isFine = abs(ahead) <= skew
        return Finding(
            level: isFine ? .ok : .warning,
            subject: "clocks",
            message: isFine
                ? "control and cache are within \(Int(skew)) s of each other"
                : "the control's is \(text(ahead)) the cache's. Each Redis uses its own and nothing breaks; times of jobs "
                    + "and of cache entries cannot be compared. Set the clocks by NTP."
        )
    }

    private static func text(_ ahead: Double) -> String {
        String(format: "%.1f s ", abs(ahead)) + (ahead > 0 ? "ahead of" : "behind")
    }
}
