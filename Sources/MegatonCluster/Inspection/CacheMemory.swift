internal import MegatonCore
internal import MegatonRedis

/// The memory of a server of the shared cache.
package struct CacheMemory: Sendable, Equatable {
    /// URL without user and password.
    package let address: String
    /// Whether the server answers, if only that it may not be asked.
    package var answers = true
    /// Bytes in use, of all masters; nil if the server does not answer or may not be asked.
    package var used: Int?
    /// Limit of the bytes; 0 if a master has none.
    package var limit = 0
    /// Whether a master has less than a twentieth of its limit left.
    package var isFull = false
    /// Whether all masters evict keys when they are full; otherwise they refuse to store more.
    package var evicts = true
    /// Keys that were evicted since the server started.
    package var evictions = 0
    /// Why the memory is not known, as a clause.
    package var problem: String?

    fileprivate init(address: String) { self.address = address }
}

extension Inspector {
    /// Time in which a server of the cache must answer.
    private static let memoryLimit: Duration = .seconds(1)

    /// The memory of the servers of the shared cache, without a look at their keys.
    package func cacheMemory() async -> [CacheMemory] {
        await withTaskGroup(of: (Int, CacheMemory).self) { group in
            for (index, cache) in caches.enumerated() {
                group.addTask {
                    let memory = await TimeLimit.run(Self.memoryLimit) { await Self.memory(cache) }
                    if let memory { return (index, memory) }
                    var silent = CacheMemory(address: "\(cache.configuration)")
                    silent.answers = false
                    silent.problem = "it has not answered within a second"
                    return (index, silent)
                }
            }
            return await group.reduce(into: []) { $0.append($1) }.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }

    private static func memory(_ cache: RedisClient) async -> CacheMemory {
        var memory = CacheMemory(address: "\(cache.configuration)")
        do throws(RedisError) {
            let infos = try await cache.sendToMasters(["INFO"]).map { $0.reply.string ?? "" }
            func sum(_ name: String) -> Int { infos.reduce(0) { $0 + InfoReply.number(name, in: $1) } }
            memory.used = sum("used_memory")
            memory.evictions = sum("evicted_keys")
            // One master without a limit may take all memory.
            let isLimited = infos.allSatisfy { InfoReply.number("maxmemory", in: $0) > 0 }
            memory.limit = isLimited ? sum("maxmemory") : 0
            memory.isFull = infos.contains { info in
                let (used, limit) = (InfoReply.number("used_memory", in: info), InfoReply.number("maxmemory", in: info))
                return limit > 0 && used > limit - limit / 20
            }
            memory.evicts = !infos.contains { InfoReply.text("maxmemory_policy", in: $0) == "noeviction" }
        } catch {
            memory.answers = !error.isTransient
            memory.problem =
                error.isCommandRefused
                ? "its user may not run INFO"
                : error.isTransient ? "it does not answer" : "it cannot be used (\(error.code))"
        }
        return memory
    }
}
