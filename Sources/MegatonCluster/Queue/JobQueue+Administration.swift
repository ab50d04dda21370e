package import MegatonRedis

extension JobQueue {
    /// Modes that pause the whole queue.
    package enum PauseMode: String, Sendable, CaseIterable {
        /// No job is claimed; running jobs continue to their end.
        case paused
        /// No job is admitted; admitted jobs continue to their end, and pushed jobs wait in the intake.
        case drain
    }

    /// Sets or clears a mode. It stays set, also across restarts, until it is cleared.
    package func set(_ mode: PauseMode, to isOn: Bool) async throws(RedisError) {
        try await redis.run(
            QueueScripts.control,
            keys: [keys.control, keys.wake, keys.intakeWake, keys.workers],
            arguments: [.string(mode.rawValue), isOn ? "1" : "0"]
        )
    }

    /// Maximum number of earlier leaders whose stages are counted: each leader begins with taking over those of others.
    private static let stagesAtOnce = 100

    /// Number of jobs that are staged or admitted and have not ended.
    package func alive() async throws(RedisError) -> Int {
        let state = try await redis.pipeline([["GET", .string(keys.epoch)], ["SMEMBERS", .string(keys.stages)]])
        for case .error(let text) in state { throw RedisError(reply: text) }
        // A leader that died has left jobs in the stage of its epoch, which the next one takes over: perhaps one that
        // is elected only now.
        let (epoch, staged) = (state[0].int ?? 0, (state[1].array ?? []).compactMap(\.int))
        let epochs = Set(staged.sorted().suffix(Self.stagesAtOnce) + [epoch, epoch + 1]).sorted()
        // In the order in which jobs move: a job that moves between two commands is counted twice, and never missed.
        let replies = try await redis.pipeline(
            epochs.map { ["LLEN", .string(keys.stage(epoch: $0))] } + [["HLEN", .string(keys.body)]]
        )
        for case .error(let text) in replies { throw RedisError(reply: text) }
        return replies.reduce(0) { $0 + ($1.int ?? 0) }
    }

    /// Number of jobs in the public lists.
    package func intakeCount() async throws(RedisError) -> Int {
        let replies = try await redis.pipeline(Job.Priority.allCases.map { ["LLEN", .string(keys.jobs($0))] })
        for case .error(let text) in replies { throw RedisError(reply: text) }
        return replies.reduce(0) { $0 + ($1.int ?? 0) }
    }

    /// Milliseconds since 1970, by Redis' clock.
    package func now() async throws(RedisError) -> Int {
        let time = (try await redis.send(["TIME"]).array ?? []).compactMap(\.int)
        guard time.count == 2 else { throw Self.unexpected("TIME") }
        return time[0] * 1000 + time[1] / 1000
    }

    /// Maximum number of hosts that one command reads or deletes: Redis serves no other client meanwhile.
    private static let hostsAtOnce = 1000

    /// Deletes the request counts of the hosts with the fewest requests, if there are more than twice as many hosts as
    /// are kept.
    ///
    /// - Parameter pages: maximum number of pages that are read. If there are more, some rare hosts are left, and none
    ///   of those to keep is deleted: it is among the most frequent ones of any part.
    func forgetRareHosts(above kept: Int, pages: Int = 100) async throws(RedisError) {
        guard try await redis.send(["HLEN", .string(keys.statHosts)]).int ?? 0 > 2 * kept else { return }
        var counts: [String: Int] = [:]
        var cursor = "0"
        for _ in 0..<pages {
            let reply = try await redis.send([
                "HSCAN", .string(keys.statHosts), .string(cursor), "COUNT", .int(Self.hostsAtOnce),
            ])
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
                throw Self.unexpected("HSCAN")
            }
            for (host, count) in parts[1].dictionary { counts[host] = Int(count) ?? 0 }
            if counts.count > 2 * kept { try await forgetRare(&counts, above: kept) }
            cursor = next
            if cursor == "0" || Task.isCancelled { break }
        }
        try await forgetRare(&counts, above: kept)
    }

    /// Deletes all of these hosts except the most frequent ones, which are left in `counts`.
    private func forgetRare(_ counts: inout [String: Int], above kept: Int) async throws(RedisError) {
        let ranked = counts.sorted { $0.value > $1.value }
        let rare = ranked.dropFirst(kept).map { RedisArgument.string($0.key) }
        for start in stride(from: 0, to: rare.count, by: Self.hostsAtOnce) {
            let page = rare[start..<min(start + Self.hostsAtOnce, rare.count)]
            try await redis.send(RedisCommand(["HDEL", .string(keys.statHosts)] + Array(page)))
        }
        counts = Dictionary(uniqueKeysWithValues: ranked.prefix(kept).map { ($0.key, $0.value) })
    }
}
