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

    /// Number of jobs that are staged or admitted and have not ended.
    package func alive() async throws(RedisError) -> Int {
        let epoch = try await redis.send(["GET", .string(keys.epoch)]).int ?? 0
        // In the order in which jobs move: a job that is admitted between the two is counted twice, and never missed.
        let replies = try await redis.pipeline([
            ["LLEN", .string(keys.stage(epoch: epoch))], ["HLEN", .string(keys.body)],
        ])
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

    /// Deletes the request counts of the hosts with the fewest requests, if there are more than twice as many hosts as
    /// are kept.
    func forgetRareHosts(above kept: Int) async throws(RedisError) {
        guard try await redis.send(["HLEN", .string(keys.statHosts)]).int ?? 0 > 2 * kept else { return }
        let counts = try await redis.send(["HGETALL", .string(keys.statHosts)]).dictionary
        let rare = counts.sorted { (Int($0.value) ?? 0) > (Int($1.value) ?? 0) }.dropFirst(kept)
        try await redis.send(RedisCommand(["HDEL", .string(keys.statHosts)] + rare.map { .string($0.key) }))
    }
}
