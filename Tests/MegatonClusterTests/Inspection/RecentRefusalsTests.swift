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
        refusals.add(reading(7), at: at(0))
        #expect(!refusals.areKnown(at: at(0)))
        refusals.add(reading(7), at: at(10))
        #expect(!refusals.areKnown(at: at(10)))
    }

    /// Fault: the warning came and went with each reading while the memory moved around the limit.
    @Test mutating func refusalsAreRecentForAMinute() {
        refusals.add(reading(7), at: at(0))
        refusals.add(reading(8), at: at(10))
        for second in stride(from: 20, through: 70, by: 10) {
            refusals.add(reading(8), at: at(second))
            #expect(refusals.areKnown(at: at(second)), "\(second)")
        }
        #expect(!refusals.areKnown(at: at(71)))
        refusals.add(reading(9), at: at(80))
        #expect(refusals.areKnown(at: at(80)))
    }

    @Test mutating func aLongPauseOrANewQueueIsNoRefusal() {
        refusals.add(reading(7), at: at(0))
        refusals.add(reading(8), at: at(61))
        #expect(!refusals.areKnown(at: at(61)), "they may have been refused an hour ago")
        refusals.add(reading(0), at: at(70))
        #expect(!refusals.areKnown(at: at(70)))
        refusals.add(reading(1), at: at(80))
        #expect(refusals.areKnown(at: at(80)))
    }
}
