import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// When the memory of a Redis is worth a warning.
@Suite(.timeLimit(.minutes(2))) struct RedisMemoryTests {
    private static func info(_ used: Int, of limit: Int, policy: String, uncounted: Int = 0) -> String {
        let lines = [
            "# Memory", "used_memory:\(used << 20)", "maxmemory:\(limit << 20)", "maxmemory_policy:\(policy)",
            "mem_not_counted_for_evict:\(uncounted << 20)",
        ]
        return lines.joined(separator: "\r\n")
    }

    private static func memory(_ used: Int, of limit: Int, policy: String, uncounted: Int = 0) -> RedisMemory {
        RedisMemory(info: info(used, of: limit, policy: policy, uncounted: uncounted))
    }

    @Test(
        arguments: [
            (70, 100, "noeviction", nil), (500, 0, "noeviction", nil),
            (90, 100, "noeviction", "90 % of 100 MiB: when it is full, Redis refuses new jobs. Raise maxmemory."),
            // A cache in the same Redis makes room.
            (99, 100, "volatile-lru", nil),
            (
                101, 100, "volatile-lru",
                "101 MiB are in use, maxmemory is 100 MiB, and Redis refuses new jobs. Raise maxmemory."
            ),
        ] as [(Int, Int, String, String?)]
    )
    func aWarningIsForARedisWithoutRoom(_ used: Int, _ limit: Int, _ policy: String, _ warning: String?) {
        #expect(Self.memory(used, of: limit, policy: policy).jobsWarning == warning)
    }

    @Test func buffersThatRedisLeavesOutDoNotFillIt() {
        #expect(Self.memory(101, of: 100, policy: "noeviction").isFull)
        #expect(!Self.memory(101, of: 100, policy: "noeviction", uncounted: 2).isFull)
    }

    /// Fault: the dashboard called a cache full that still had a twentieth of its limit, and counted other bytes.
    @Test func aCacheIsFullByTheSameRule() {
        func cache(_ used: Int, uncounted: Int = 0) -> CacheMemory {
            let full = Self.info(used, of: 100, policy: "noeviction", uncounted: uncounted)
            return CacheMemory(address: "a", infos: [Self.info(1, of: 100, policy: "allkeys-lru"), full])
        }
        #expect(cache(101).isFull && !cache(99).isFull && !cache(101, uncounted: 2).isFull)
        #expect(cache(99).used == 100 << 20 && cache(99).limit == 200 << 20 && !cache(99).evicts)
        #expect(cache(101).needsRoom && cache(81).needsRoom && !cache(80).needsRoom)
        #expect(!cache(99, uncounted: 30).needsRoom)
        let evicting = CacheMemory(address: "a", infos: [Self.info(101, of: 100, policy: "allkeys-lru")])
        #expect(evicting.isFull && !evicting.needsRoom)
        let unlimited = [Self.info(1, of: 0, policy: "allkeys-lru"), Self.info(1, of: 100, policy: "allkeys-lru")]
        let memory = CacheMemory(address: "a", infos: unlimited)
        #expect(memory.limit == 0 && memory.evicts && !memory.isFull)
    }

    @Test func aFullControlRedisHasAWarningWithItsAddress() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let inspector = Inspector(queue: fixture.queue, cache: fixture.redis)
            #expect(await inspector.controlMemoryWarnings().isEmpty)
            try await fixture.redis.send(["CONFIG", "SET", "maxmemory", "1"])
            let warnings = await inspector.controlMemoryWarnings()
            #expect(warnings.count == 1 && warnings[0].contains("refuses new jobs"), "\(warnings)")
            #expect(warnings[0].hasPrefix("control Redis at \(fixture.redis.configuration): "), "\(warnings)")
        }
    }
}
