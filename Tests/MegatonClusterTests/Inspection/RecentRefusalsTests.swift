import Testing

@testable import MegatonCluster

/// The time for which refused entries are recent.
struct RecentRefusalsTests {
    private let start = ContinuousClock.now
    private var refusals = RecentRefusals()

    private func reading(_ refused: Int) -> CacheStatistics {
        CacheStatistics(counters: ["cache_full": refused])
    }

    private func at(_ seconds: Int) -> ContinuousClock.Instant { start.advanced(by: .seconds(seconds)) }

    @Test mutating func theFirstReadingSaysNothing() {
        refusals.add(reading(7), [], at: at(0))
        #expect(!refusals.hasRefused(at: at(0)))
        refusals.add(reading(7), [], at: at(10))
        #expect(!refusals.hasRefused(at: at(10)))
    }

    /// Fault: the warning came and went with each reading while the memory moved around the limit.
    @Test mutating func refusalsAreRecentForAMinute() {
        refusals.add(reading(7), [], at: at(0))
        refusals.add(reading(8), [], at: at(10))
        for second in stride(from: 20, through: 70, by: 10) {
            refusals.add(reading(8), [], at: at(second))
            #expect(refusals.hasRefused(at: at(second)), "\(second)")
        }
        #expect(!refusals.hasRefused(at: at(71)))
        refusals.add(reading(9), [], at: at(80))
        #expect(refusals.hasRefused(at: at(80)))
    }

    @Test mutating func aLongPauseOrANewQueueIsNoRefusal() {
        refusals.add(reading(7), [], at: at(0))
        refusals.add(reading(8), [], at: at(61))
        #expect(!refusals.hasRefused(at: at(61)), "they may have been refused an hour ago")
        refusals.add(reading(0), [], at: at(70))
        #expect(!refusals.hasRefused(at: at(70)))
        refusals.add(reading(1), [], at: at(80))
        #expect(refusals.hasRefused(at: at(80)))
    }

    /// Fault: the warning came back, or stayed, for a minute after the operator had done as it says.
    @Test(arguments: [
        ("noeviction", "400 noeviction"), ("noeviction", "100 allkeys-lru"), ("volatile-lru", "100 allkeys-lru"),
    ])
    mutating func anotherLimitOrPolicyEndsIt(_ policy: String, _ repaired: String) {
        func server(_ settings: String) -> CacheMemory {
            let parts = settings.split(separator: " ")
            let info = "used_memory:99\r\nmaxmemory:\(parts[0])\r\nmaxmemory_policy:\(parts[1])\r\n"
            return CacheMemory(address: "redis://cache", infos: [info])
        }
        let full = server("100 \(policy)")
        refusals.add(reading(7), [full], at: at(0))
        refusals.add(reading(8), [full], at: at(10))
        refusals.add(reading(8), [], at: at(20))
        #expect(refusals.hasRefused(at: at(20)), "a server that does not answer is not repaired")
        refusals.add(reading(9), [server(repaired)], at: at(30))
        #expect(!refusals.hasRefused(at: at(30)), "those before the repair count no more")
        refusals.add(reading(10), [server(repaired)], at: at(40))
        #expect(!refusals.hasRefused(at: at(40)), "nor do those that workers had not counted yet")
        refusals.add(reading(11), [server(repaired)], at: at(50))
        #expect(refusals.hasRefused(at: at(50)))
    }
}
