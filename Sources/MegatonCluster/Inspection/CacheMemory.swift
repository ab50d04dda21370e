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
    /// Whether the limit of a master is used up, by the rule of `RedisMemory`.
    package var isFull = false
    /// Whether a master that evicts nothing is full or nearly so, by the rule of `RedisMemory`. Its memory moves around
    /// the limit, and it refuses large entries before small ones: `isFull` alone would come and go.
    package var needsRoom = false
    /// Whether all masters evict keys when they are full; otherwise they refuse to store more.
    package var evicts = true
    /// The limit and the policy of each master, sorted: those that an operator changes for a full cache.
    package var settings: [String] = []
    /// Keys that were evicted since the server started.
    package var evictions = 0
    /// Why the memory is not known, as a clause.
    package var problem: String?

    fileprivate init(address: String) { self.address = address }

    /// - Parameter infos: the replies of all masters to INFO.
    init(address: String, infos: [String]) {
        self.init(address: address)
        let masters = infos.map(RedisMemory.init(info:))
        used = masters.reduce(0) { $0 + $1.used }
        evictions = infos.reduce(0) { $0 + InfoReply.number("evicted_keys", in: $1) }
        // One master without a limit may take all memory.
        let isLimited = masters.allSatisfy { $0.limit > 0 }
        limit = isLimited ? masters.reduce(0) { $0 + $1.limit } : 0
        isFull = masters.contains { $0.isFull }
        needsRoom = masters.contains { $0.policy == "noeviction" && ($0.isFull || $0.isNearlyFull) }
        settings = masters.map { "\($0.limit) \($0.policy)" }.sorted()
        evicts = !masters.contains { $0.policy == "noeviction" }
    }
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
        let address = "\(cache.configuration)"
        do throws(RedisError) {
            let infos = try await cache.sendToMasters(["INFO"]).map { $0.reply.string ?? "" }
            return CacheMemory(address: address, infos: infos)
        } catch {
            var memory = CacheMemory(address: address)
            memory.answers = !error.isTransient
            memory.problem =
                error.isCommandRefused
                ? "its user may not run INFO"
                : error.isTransient ? "it does not answer" : "it cannot be used (\(error.code))"
            return memory
        }
    }
}
