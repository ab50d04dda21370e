package import Logging
package import MegatonRedis
package import NIOCore

/// A queue on all of its shards; see the section "Shards" of <doc:Scheduling>.
///
/// Each shard is a whole `JobQueue`, and most queues have one. Questions about the whole queue go to all of them, and
/// the answers are added up here.
package struct ShardedQueue: Sendable {
    /// The shards, in order.
    package let shards: [JobQueue]
    package let layout: ShardLayout

    /// A queue of one shard.
    package init(_ queue: JobQueue) {
        shards = [queue]
        layout = ShardLayout()
    }

    init(_ shards: [JobQueue], layout: ShardLayout) {
        self.shards = shards
        self.layout = layout
    }

    /// Whether a worker lives in one of the shards: see `JobQueue.hasLivingWorker(timeout:)`.
    ///
    /// - Throws: the error of a shard, if no worker lives in the others.
    package func hasLivingWorker(timeout: Duration) async throws(RedisError) -> Bool {
        var failure: RedisError?
        for shard in shards {
            do throws(RedisError) {
                if try await shard.hasLivingWorker(timeout: timeout) { return true }
            } catch {
                guard error.isTransient else { throw error }
                failure = error
            }
        }
        if let failure { throw failure }
        return false
    }

    /// Shard 0, which has the layout, the names of batches and the front door.
    package var first: JobQueue { shards[0] }
    /// Whether there is more than one shard.
    package var isDivided: Bool { shards.count > 1 }

    /// Connects to all shards of a queue, or fails at once.
    ///
    /// - Parameters:
    ///   - role: name of the connections.
    ///   - toleratesAbsence: whether shards other than the first one may be unreachable.
    /// - Throws: `.shardMismatch` if the servers are not those of the queue, or it is being changed.
    package static func open(
        _ address: QueueAddress,
        role: String,
        toleratesAbsence: Bool = false,
        group: any EventLoopGroup,
        logger: Logger
    ) async throws(RedisError) -> ShardedQueue {
        let first = address.shard(0, role: role, group: group, logger: logger)
        do throws(RedisError) {
            try await first.redis.connect()
            return try await open(
                first,
                address,
                role: role,
                toleratesAbsence: toleratesAbsence,
                group: group,
                logger: logger
            )
        } catch {
            first.close()
            throw error
        }
    }

    /// Connects to the other shards of a queue.
    ///
    /// - Parameter first: shard 0; it stays open if this fails.
    package static func open(
        _ first: JobQueue,
        _ address: QueueAddress,
        role: String,
        toleratesAbsence: Bool = false,
        group: any EventLoopGroup,
        logger: Logger
    ) async throws(RedisError) -> ShardedQueue {
        let layout = try await address.layout(first, group: group, logger: logger)
        let others = (1..<max(layout.count, 1)).map { number in
            address.shard(number, role: role, group: group, logger: logger)
        }
        // At the same time: several may be on a server that does not answer.
        let results = await ShardedQueue(others, layout: layout).results { (shard) async throws(RedisError) in
            try await shard.redis.connect()
            try await layout.check(shard, servers: address.servers.count)
        }
        for case .failure(let error) in results where !(toleratesAbsence && error.isTransient) {
            for shard in others { shard.close() }
            throw error
        }
        return ShardedQueue([first] + others, layout: layout)
    }

    /// Checks that the queue still has these shards, and gives a shard its copy of the layout back if it has lost it.
    ///
    /// - Parameter onlyFirst: whether to read only the copy of shard 0, which decides.
    /// - Throws: `.shardMismatch` if the number of shards has changed, or is being changed.
    package func checkLayout(onlyFirst: Bool = false) async throws(RedisError) {
        if !isDivided || onlyFirst { return try await checkLayout(of: first) }
        // Of all at once: a shard that is away must not keep another one from getting its copy back.
        var failure: RedisError?
        let results = await results { (shard) async throws(RedisError) in try await checkLayout(of: shard) }
        for case .failure(let error) in results where failure?.code != .shardMismatch {
            if failure == nil || error.code == .shardMismatch { failure = error }
        }
        if let failure { throw failure }
    }

    private func checkLayout(of shard: JobQueue) async throws(RedisError) {
        let text = layout.isStored ? try await shard.restoreLayout(layout) : try await shard.layout()
        if text == (layout.isStored ? layout.text(of: shard.keys.shard) : nil) { return }
        let now = text.flatMap(ShardLayout.parse)?.layout
        let change =
            now.map { "from \(layout.count) to \($0.target?.count ?? $0.count)" }
            ?? "to \"\(text?.prefix(64) ?? "")\""
        throw RedisError(
            .shardMismatch,
            "The number of shards of the queue \"\(shard.keys.queue)\" has changed \(change). A process has to start "
                + "again to use the new ones."
        )
    }

    /// Closes the connections.
    package func close() { for shard in shards { shard.close() } }

    /// Does not wait for shards that are unreachable any more.
    package func failFast() { for shard in shards { shard.redis.failFast() } }

    /// Runs the body for all shards at once.
    ///
    /// - Returns: the results, in the order of the shards.
    /// - Throws: the first error in that order, when all have ended.
    package func forEach<Value: Sendable>(
        _ body: @escaping @Sendable (JobQueue) async throws(RedisError) -> Value
    ) async throws(RedisError) -> [Value] {
        if shards.count == 1 { return [try await body(shards[0])] }
        let results = await results(body)
        var values: [Value] = []
        for result in results { values.append(try result.get()) }
        return values
    }

    /// Runs the body for all shards at once.
    func results<Value: Sendable>(
        _ body: @escaping @Sendable (JobQueue) async throws(RedisError) -> Value
    ) async -> [Result<Value, RedisError>] {
        await withTaskGroup(of: (Int, Result<Value, RedisError>).self) { group in
            for (index, shard) in shards.enumerated() {
                group.addTask {
                    do throws(RedisError) {
                        return (index, .success(try await body(shard)))
                    } catch {
                        return (index, .failure(error))
                    }
                }
            }
            var results: [(Int, Result<Value, RedisError>)] = []
            for await result in group { results.append(result) }
            return results.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }
}

extension [JobQueue] {
    /// A connection to each server of these shards, several of which may be on one.
    package var servers: [RedisClient] {
        var servers: [RedisClient] = []
        for shard in self where !servers.contains(where: { $0.configuration == shard.redis.configuration }) {
            servers.append(shard.redis)
        }
        return servers
    }
}
