internal import MegatonCore
internal import MegatonRedis

/// The memory of a Redis, and when an operator should know that little is left: the rule of `megaton doctor` and of the
/// live views.
struct RedisMemory: Sendable, Equatable {
    /// Bytes in use.
    let used: Int
    /// Bytes in use that count for the limit: Redis leaves the buffers of its replicas and of its append-only file out.
    let counted: Int
    /// `maxmemory`; 0 if there is none.
    let limit: Int
    /// `maxmemory-policy`.
    let policy: String

    /// Fraction of the limit from which a Redis counts as nearly full.
    private static let nearlyFull = 0.8

    /// - Parameter info: the reply to INFO.
    init(info: String) {
        used = InfoReply.number("used_memory", in: info)
        counted = max(0, used) - max(0, InfoReply.number("mem_not_counted_for_evict", in: info))
        limit = InfoReply.number("maxmemory", in: info)
        policy = InfoReply.text("maxmemory_policy", in: info) ?? "?"
    }

    /// Whether it has no more than a fifth of its limit left.
    var isNearlyFull: Bool { limit > 0 && Double(counted) / Double(limit) > Self.nearlyFull }

    /// Whether Redis refuses commands that need memory, unless it can evict keys.
    var isFull: Bool { limit > 0 && counted > limit }

    /// The use of the limit, which must not be 0, as a clause.
    var state: String {
        // Another program may have written a number that no integer can hold.
        "\(Int(min(Double(used) / Double(limit) * 100, 1e9))) % of \(limit >> 20) MiB"
    }

    /// The consequence of a Redis that is full, or nearly so, and what to do, as sentences.
    ///
    /// - Parameter refused: that which needs memory, such as `new jobs`.
    func warning(refusing refused: String) -> String {
        isFull
            ? "\(used >> 20) MiB are in use, maxmemory is \(limit >> 20) MiB, and Redis refuses \(refused). Raise "
                + "maxmemory."
            : "\(state): when it is full, Redis refuses \(refused). Raise maxmemory."
    }

    /// The same for a Redis that holds jobs; nil if it has room.
    var jobsWarning: String? {
        // The entries of a cache in the same Redis fill it, as they should, and make room for jobs.
        let makesRoom = policy.hasPrefix("volatile") && !isFull
        guard isFull || isNearlyFull, !makesRoom else { return nil }
        return warning(refusing: "new jobs")
    }
}

extension Inspector {
    /// Time in which a control Redis must answer.
    private static let controlMemoryLimit: Duration = .seconds(1)

    /// A warning for each control Redis that is full, or nearly so.
    ///
    /// One that does not answer, or may not be asked, has none here: the status names the first, and `megaton doctor`
    /// the second.
    package func controlMemoryWarnings() async -> [String] {
        await withTaskGroup(of: (Int, [String]).self) { group in
            for (index, server) in queue.shards.servers.enumerated() {
                group.addTask {
                    let warnings = await TimeLimit.run(Self.controlMemoryLimit) { await Self.jobsWarnings(server) }
                    return (index, warnings ?? [])
                }
            }
            return await group.reduce(into: []) { $0.append($1) }.sorted { $0.0 < $1.0 }.flatMap(\.1)
        }
    }

    private static func jobsWarnings(_ redis: RedisClient) async -> [String] {
        do throws(RedisError) {
            return try await redis.sendToMasters(["INFO", "memory"]).compactMap { node, reply in
                RedisMemory(info: reply.string ?? "").jobsWarning.map { warning in
                    "control Redis at \(node ?? "\(redis.configuration)"): \(warning)"
                }
            }
        } catch {
            return []
        }
    }
}
