import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// Keys of a queue that another program has written with a type of its own, in messages of commands.
enum DamagedKeys {
    /// Maximum number of keys that a message names.
    private static let shown = 3

    /// The keys that all jobs share, and those of a batch, in all shards.
    static func find(in queue: ShardedQueue, batch: String) async throws(RedisError) -> [KeyTypes.Damage] {
        do throws(RedisError) {
            let found = try await queue.forEach { (shard) async throws(RedisError) in
                try await KeyTypes(shard).damaged(batches: [batch])
            }
            return found.flatMap(\.self)
        } catch {
            // A user that may not ask for types may be able to submit all the same.
            guard error.isCommandRefused else { throw error }
            return []
        }
    }

    /// The keys, and the command that helps. At least one key is needed.
    static func sentences(_ keys: [KeyTypes.Damage]) -> String {
        let named = keys.prefix(shown).map(\.description).joined(separator: "; ")
        let more = keys.count > shown ? "; and \(keys.count - shown) more" : ""
        return "\(named)\(more). megaton doctor says how to repair the queue."
    }

    /// The same error with the names of the keys, which Redis does not say. If none is found, the error itself.
    static func named(_ error: RedisError, in queue: ShardedQueue) async -> any Error {
        var keys: [KeyTypes.Damage] = []
        for shard in queue.shards {
            // A command has failed: its error matters more than that of this search.
            keys += (try? await KeyTypes(shard).damaged()) ?? []
        }
        if keys.isEmpty { return error }
        let end = error.message.hasSuffix(".") ? "" : "."
        return CLIError.unavailable("\(error.message)\(end) \(sentences(keys))")
    }
}
