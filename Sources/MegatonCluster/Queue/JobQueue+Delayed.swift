package import MegatonRedis

/// A job in `holding`, as the scripts write it: `<host>\0<priority><place>\0<id>`, with 19 characters of place.
struct HoldingEntry {
    let host: String
    /// The text of the job's `JobKey`.
    let id: String

    private static let placeSize = 20

    /// - Returns: nil if the text has another form.
    init?(_ text: String) {
        let parts = text.split(separator: "\0", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[1].utf8.count == Self.placeSize else { return nil }
        host = String(parts[0])
        id = String(parts[2])
    }
}

extension JobQueue {
    /// Jobs of a batch that wait: for a retry, for their `notBefore`, or for their host, which is at its limit.
    package struct Delayed: Sendable, Equatable {
        package var count: Int
        /// Seconds until the first of them is ready, not below 0; nil if there is none.
        package var next: Double?

        package init(count: Int, next: Double?) {
            self.count = count
            self.next = next
        }
    }

    /// Maximum number of delayed jobs whose names are read: at most 300 bytes each, usually 40.
    private static let examinedDelayed = 1000

    /// Counts the delayed and held jobs of a batch among the queue's first 1000 of each kind. If more are held, among
    /// the first 100 of each of the 50 hosts with the next turns.
    ///
    /// - Returns: all of the batch if no other batch has any, or if the queue has at most 1000 of each kind; otherwise
    ///   those among the first.
    package func delayed(of batch: String) async throws(RedisError) -> Delayed {
        let commands: [RedisCommand] = [
            ["ZCARD", .string(keys.delay)],
            ["ZRANGE", .string(keys.delay), "0", .int(Self.examinedDelayed - 1), "WITHSCORES"], ["TIME"],
            ["ZCARD", .string(keys.holding)],
            ["ZRANGE", .string(keys.holding), "0", .int(Self.examinedDelayed - 1)],
        ]
        let replies = try await redis.pipeline(commands)
        for case .error(let text) in replies { throw RedisError(reply: text) }
        guard replies.count == commands.count, let time = replies[2].array?.compactMap(\.int), time.count == 2 else {
            throw Self.unexpected("delayed")
        }
        let now = Double(time[0]) + Double(time[1]) / 1e6
        let fields = replies[1].array ?? []
        let indices = stride(from: 0, to: fields.count - 1, by: 2)
        let own = indices.filter { fields[$0].string.flatMap { JobKey($0).batch } == batch }
        // Scores are milliseconds of the server's clock.
        let first = own.first.flatMap { fields[$0 + 1].string }.flatMap(Double.init)
        let isAlone = !own.isEmpty && 2 * own.count == fields.count
        // In `holding`, the first ones are those of the hosts that come first in the alphabet.
        let entries =
            replies[3].int ?? 0 > Self.examinedDelayed
            ? try await nextHeld()
            : (replies[4].array ?? []).compactMap { $0.string.flatMap(HoldingEntry.init) }
        let held = entries.count { JobKey($0.id).batch == batch }
        let holdsOnlyOwn = held > 0 && held == entries.count
        return Delayed(
            count: (isAlone ? max(own.count, replies[0].int ?? 0) : own.count)
                + (holdsOnlyOwn ? max(held, replies[3].int ?? 0) : held),
            next: first.map { max(0, $0 / 1000 - now) }
        )
    }

    /// Number of jobs that begin later, and the seconds until the last of them does; nil if there is none.
    func scheduled() async throws(RedisError) -> (count: Int, last: Double)? {
        let replies = try await redis.pipeline([
            ["ZCARD", .string(keys.delay)], ["ZRANGE", .string(keys.delay), "0", "0", "REV", "WITHSCORES"], ["TIME"],
        ])
        for case .error(let text) in replies { throw RedisError(reply: text) }
        guard let time = replies[2].array?.first?.int else { throw Self.unexpected("scheduled") }
        guard let last = replies[1].array?.last?.string.flatMap(Double.init) else { return nil }
        return (replies[0].int ?? 0, max(0, last / 1000 - Double(time)))
    }

    /// The first held jobs of the hosts with the next turns.
    private func nextHeld() async throws(RedisError) -> [HoldingEntry] {
        let hosts = try await redis.send(["ZRANGE", .string(keys.held), "0", .int(Self.examinedHosts - 1)]).array ?? []
        let replies = try await redis.pipeline(hosts.compactMap(\.string).map(firstHeld))
        for case .error(let text) in replies { throw RedisError(reply: text) }
        return replies.flatMap { ($0.array ?? []).compactMap { $0.string.flatMap(HoldingEntry.init) } }
    }

    /// The command that reads the first held jobs of a host.
    func firstHeld(of host: String) -> RedisCommand {
        [
            "ZRANGEBYLEX", .string(keys.holding), .string("[\(host)\0"), .string("(\(host)\u{1}"), "LIMIT", "0",
            .int(Self.examinedOfHost),
        ]
    }

    /// Maximum number of hosts whose held jobs are counted, and of names that are read of each.
    private static let examinedHosts = 50
    private static let examinedOfHost = 100
}
