internal import Foundation
package import MegatonRedis

// Questions about the whole queue, and changes of it. Changes reach all shards, also if one of them fails, and then
// throw its error; they can be repeated.

extension ShardedQueue {
    /// Sets or clears a mode in all shards; see `JobQueue.set(_:to:)`.
    package func set(_ mode: JobQueue.PauseMode, to isOn: Bool) async throws(RedisError) {
        _ = try await forEach { (shard) async throws(RedisError) in try await shard.set(mode, to: isOn) }
    }

    /// Number of jobs that are staged or admitted and have not ended.
    package func alive() async throws(RedisError) -> Int {
        try await sum { (shard) async throws(RedisError) in try await shard.alive() }
    }

    /// Number of jobs that begin later, and the seconds until the last of them does; nil if there is none.
    package func scheduled() async throws(RedisError) -> (count: Int, last: Double)? {
        let found = try await forEach { (shard) async throws(RedisError) in try await shard.scheduled() }
        let counts = found.compactMap { $0 }
        guard let last = counts.map(\.last).max() else { return nil }
        return (counts.reduce(0) { $0 + $1.count }, last)
    }

    /// Number of jobs in the public lists.
    package func intakeCount() async throws(RedisError) -> Int {
        try await sum { (shard) async throws(RedisError) in try await shard.intakeCount() }
    }

    /// Number of workers that have signed on in all shards.
    package func workerCount() async throws(RedisError) -> Int {
        try await forEach { (shard) async throws(RedisError) in try await shard.workerCount() }.min() ?? 0
    }

    /// Number of jobs with long fetches that the workers that have signed on run at a time, beside those that occupy
    /// their places.
    package func longFetches() async throws(RedisError) -> Int {
        try await sum { (shard) async throws(RedisError) in try await shard.places().longFetches }
    }

    /// How far these hosts have answered, as far as the shard knows that keeps the limits of each. Hosts without a
    /// request are left out. Other shards may know an earlier state, of before their number was changed.
    package func answers(of hosts: [String]) async throws(RedisError) -> [String: JobQueue.HostAnswer] {
        let layout = ShardLayout(count: shards.count)
        return try await forEach { (shard) async throws(RedisError) in
            let own = hosts.filter { layout.shard(of: $0) == shard.keys.shard }
            return own.isEmpty ? [:] : try await shard.answers(of: own)
        }
        .reduce(into: [:]) { $0.merge($1) { first, _ in first } }
    }

    /// Milliseconds since 1970, by the clock of shard 0.
    package func now() async throws(RedisError) -> Int { try await first.now() }

    private func sum(
        _ body: @escaping @Sendable (JobQueue) async throws(RedisError) -> Int
    ) async throws(RedisError) -> Int {
        try await forEach(body).reduce(0, +)
    }

    // MARK: - Batches

    /// Numbers of jobs in the intakes of a batch in all shards, which were pushed and not staged; a pack is one.
    package func intakeLengths(of batch: String) async throws(RedisError) -> [Int] {
        try await forEach { (shard) async throws(RedisError) in try await shard.intakeLength(of: batch) }
    }

    /// Counters of a batch, summed over the shards that know it.
    func counters(of batch: String) async throws(RedisError) -> BatchCounters {
        .sum(
            try await forEach { (shard) async throws(RedisError) in BatchCounters(try await shard.batch(batch)) }
        )
    }

    /// Number of outcomes of a batch that readers have acknowledged, in each shard.
    package func readCounts(of batch: String) async throws(RedisError) -> [Int] {
        try await forEach { (shard) async throws(RedisError) in BatchCounters(try await shard.batch(batch))["read"] }
    }

    /// The newest batches, newest first.
    package func batches(limit: Int) async throws(RedisError) -> [BatchSummary] {
        if !isDivided { return try await first.batches(limit: limit) }
        let lists = try await forEach { (shard) async throws(RedisError) in try await shard.batches(limit: limit) }
        let named = Dictionary(grouping: lists.joined(), by: \.name)
        let newest = named.map { name, parts -> (name: String, created: Int) in
            // One that no shard can read comes first, so that the limit does not hide it.
            let readable = parts.filter { $0.damagedKey == nil }
            return (name: name, created: readable.map { $0.counters["created"] }.min() ?? .max)
        }.sorted { ($0.created, $0.name) > ($1.created, $1.name) }
        // A shard may not have listed one that it knows.
        var summaries: [BatchSummary] = []
        for (name, _) in newest.prefix(limit) {
            let parts = named[name] ?? []
            if let damaged = parts.first(where: { $0.damagedKey != nil }) {
                summaries.append(damaged)
                continue
            }
            let counters = parts.count == shards.count ? .sum(parts.map(\.counters)) : try await counters(of: name)
            if counters.isKnown { summaries.append(BatchSummary(name: name, counters: counters)) }
        }
        return summaries
    }

    /// Closes a batch in all shards that know it.
    ///
    /// - Parameter expected: number of jobs that were pushed in all, if known. The first shard that knows the batch
    ///   waits for those that the others do not have, or shard 0: foreign clients push to one shard, usually to that.
    /// - Returns: whether the batch has ended.
    /// - Throws: `.noBatch` if no shard knows it.
    @discardableResult
    package func close(batch: String, expected: Int? = nil) async throws(RedisError) -> Bool {
        if !isDivided { return try await first.close(batch: batch, expected: expected) }
        var counts: [(shard: Int, jobs: Int)] = []
        for shard in shards where expected != nil {
            let counters = BatchCounters(try await shard.batch(batch))
            guard counters.isKnown else { continue }
            counts.append((shard.keys.shard, max(counters["submitted"], counters["total"])))
        }
        let (waiting, others) = (counts.first?.shard ?? 0, counts.dropFirst().reduce(0) { $0 + $1.jobs })
        let rest = expected.map { max($0 - others, 0) }
        return try await inThoseThatKnow { (shard) async throws(RedisError) in
            try await shard.close(batch: batch, expected: shard.keys.shard == waiting ? rest : nil)
        }.allSatisfy { $0 }
    }

    /// Cancels a batch in all shards that know it.
    ///
    /// - Throws: `.noBatch` if none does.
    package func cancel(batch: String) async throws(RedisError) {
        _ = try await inThoseThatKnow { (shard) async throws(RedisError) in try await shard.cancel(batch: batch) }
    }

    private func inThoseThatKnow(
        _ body: @escaping @Sendable (JobQueue) async throws(RedisError) -> Bool
    ) async throws(RedisError) -> [Bool] {
        var (values, failure): ([Bool], RedisError?) = ([], nil)
        for result in await results(body) {
            switch result {
            case .success(let value): values.append(value)
            case .failure(let error):
                // The error of a shard that does not answer matters more than that of one without the batch.
                if failure == nil || failure?.code == .noBatch { failure = error }
            }
        }
        if let failure, values.isEmpty || failure.code != .noBatch { throw failure }
        return values
    }

    // MARK: - Jobs

    /// Counts the delayed and held jobs of a batch; see `JobQueue.delayed(of:)`.
    package func delayed(of batch: String) async throws(RedisError) -> JobQueue.Delayed {
        let all = try await forEach { (shard) async throws(RedisError) in try await shard.delayed(of: batch) }
        return JobQueue.Delayed(count: all.reduce(0) { $0 + $1.count }, next: all.compactMap(\.next).min())
    }

    /// The host whose turn is first among those that jobs of a batch wait for; see `JobQueue.awaitedHost(of:)`.
    package func awaitedHost(of batch: String) async throws(RedisError) -> JobQueue.AwaitedHost? {
        try await forEach { (shard) async throws(RedisError) in try await shard.awaitedHost(of: batch) }
            .compactMap(\.self).min { $0.seconds < $1.seconds }
    }

    /// Forgets the process deaths that the sources of these jobs are suspected of.
    package func forgetDeaths(of jobs: [Job]) async throws(RedisError) {
        _ = try await forEach { (shard) async throws(RedisError) in try await shard.forgetDeaths(of: jobs) }
    }

    /// Reports that a worker's process has ended; see `JobQueue.report(deathOf:on:)`.
    @discardableResult
    package func report(deathOf pid: Int32, on host: String) async throws(RedisError) -> JobQueue.WorkerExit {
        let exits = try await forEach { (shard) async throws(RedisError) in
            try await shard.report(deathOf: pid, on: host)
        }
        return JobQueue.WorkerExit(
            hadRegistered: exits.contains(where: \.hadRegistered),
            ended: exits.reduce(0) { $0 + $1.ended }
        )
    }
}

// MARK: - Dead letters

extension ShardedQueue {
    /// Number of dead jobs.
    package func deadCount() async throws(RedisError) -> Int {
        try await sum { (shard) async throws(RedisError) in try await shard.deadCount() }
    }

    /// Number of dead letters that were deleted to make room, or after their time, since the queue was created.
    package func droppedDeadLetters() async throws(RedisError) -> Int {
        try await sum { (shard) async throws(RedisError) in try await shard.droppedDeadLetters() }
    }

    /// Dead letters with this id, ordered by batch; see `JobQueue.deadLetters(id:batch:)`.
    package func deadLetters(id: String, batch: String? = nil) async throws(RedisError) -> [DeadLetter] {
        try await forEach { (shard) async throws(RedisError) in try await shard.deadLetters(id: id, batch: batch) }
            .flatMap(\.self)
    }

    /// Dead letters, one page at a time: those of shard 0 first, and in each shard the oldest first.
    ///
    /// - Parameters:
    ///   - offset: number of letters to skip.
    ///   - limit: maximum number of letters to read. The page has fewer at the end of a shard, and above 8 MiB.
    ///   - time: seconds since 1970; later letters are left out. Nil for all.
    package func deadLetters(
        offset: Int,
        limit: Int,
        until time: Double = .infinity
    ) async throws(RedisError) -> [DeadLetter] {
        var offset = offset
        for shard in shards {
            let page = try await shard.deadLetters(offset: offset, limit: limit).filter { $0.died <= time }
            if !page.isEmpty { return page }
            if !isDivided { continue }
            let latest = time.isFinite ? String(Int(time * 1000)) : "+inf"
            let count = try await shard.redis.send(["ZCOUNT", .string(shard.keys.dead), "-inf", .string(latest)]).int
            offset = max(offset - (count ?? 0), 0)
        }
        return []
    }

    /// Moves dead jobs back to the public intake of their shard; see `JobQueue.requeue(_:)`.
    package func requeue(_ letters: [DeadLetter]) async throws(RedisError) -> Int {
        try await sum { (shard) async throws(RedisError) in
            try await shard.requeue(letters.filter { $0.shard == shard.keys.shard })
        }
    }

    /// Deletes dead letters.
    ///
    /// - Returns: number of letters that existed.
    package func drop(_ letters: [DeadLetter]) async throws(RedisError) -> Int {
        try await sum { (shard) async throws(RedisError) in
            try await shard.drop(letters.filter { $0.shard == shard.keys.shard })
        }
    }
}
