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
                ? "within \(Int(skew)) s of this machine's clock"
                : "\(text(ahead)) this machine's clock. Leases and delays are correct, as they follow the clock of "
                    + "Redis; displayed times are not. Synchronize the clocks by NTP."
        )
    }

    /// - Parameter ahead: seconds by which the control's clock is ahead of the cache's.
    static func clocks(_ ahead: Double) -> Finding {
        let isFine = abs(ahead) <= skew
        return Finding(
            level: isFine ? .ok : .warning,
            subject: "clocks",
            message: isFine
                ? "the clocks of control Redis and cache Redis are within \(Int(skew)) s of each other"
                : "the clock of the control Redis is \(text(ahead)) that of the cache Redis. Each uses its own, so "
                    + "jobs and cache are correct, but their times cannot be compared. Synchronize the clocks by NTP."
        )
    }

    private static func text(_ ahead: Double) -> String {
        String(format: "%.1f s ", abs(ahead)) + (ahead > 0 ? "ahead of" : "behind")
    }
}
