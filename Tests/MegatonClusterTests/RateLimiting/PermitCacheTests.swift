import MegatonPipeline
import Testing

@testable import MegatonCluster

struct PermitCacheTests {
    private let start = ContinuousClock.now

    private func permit(_ token: String, _ host: String = "a:80") -> FetchPermit {
        FetchPermit(host: host, token: token)
    }

    /// A cache with permits that were granted, and stored, at the start.
    private func cache(_ permits: FetchPermit...) -> PermitCache {
        var cache = PermitCache()
        for permit in permits { _ = cache.store(permit, granted: start, at: start) }
        return cache
    }

    @Test func onePermitServesSeveralRequests() {
        var cache = cache(permit("1"), permit("2"))
        let other = cache.reuse("b:80", at: start)
        #expect(other?.permit == nil)
        let (last, first, none) = (
            cache.reuse("a:80", at: start), cache.reuse("a:80", at: start), cache.reuse("a:80", at: start)
        )
        #expect(last?.permit == permit("2"), "the surplus one stays unused")
        #expect(first?.permit == permit("1") && first?.granted == start)
        #expect(none?.permit == nil && cache.isEmpty)
    }

    @Test func aPermitIsReusedForAShortTime() {
        let late = start + PermitCache.lifetime
        var cache = cache(permit("1"))
        let (isKept, taken, unused) = (
            cache.store(permit("2"), granted: start, at: late), cache.reuse("a:80", at: late),
            cache.removeUnused(at: late)
        )
        #expect(!isKept && taken?.permit == nil)
        #expect(unused.map(\.permit) == [permit("1")] && cache.isEmpty)
    }

    @Test func unusedPermitsAreReleased() {
        let later = start + PermitCache.idleTime
        var cache = cache(permit("1"))
        _ = cache.store(permit("2"), granted: start, at: later)
        let (unused, rest) = (cache.removeUnused(at: later), cache.removeAll(at: later))
        #expect(unused.map(\.permit) == [permit("1")] && rest.map(\.permit) == [permit("2")] && cache.isEmpty)
    }

    @Test func permitsGrantedBeforeAFailureAreNotReused() {
        let failed = start + .milliseconds(1)
        var cache = cache(permit("1"), permit("2", "b:80"))
        let back = cache.invalidate("a:80", at: failed)
        #expect(back == [permit("1")])
        let (before, after) = (
            cache.store(permit("3"), granted: start, at: failed),
            cache.store(permit("4"), granted: failed + .milliseconds(1), at: failed + .milliseconds(2))
        )
        #expect(!before && after)
        let other = cache.reuse("b:80", at: failed)
        #expect(other?.permit != nil, "it is another host's failure")
    }

    /// Successes that are already reported, or long ago, are not reported.
    @Test func onlyRecentSuccessesAreReported() {
        let late = start + PermitCache.lifetime
        var reported = cache(permit("1"))
        _ = reported.reuse("a:80", at: start)
        _ = reported.store(permit("1"), granted: start, at: late)
        var old = cache(permit("1"))
        _ = old.reuse("a:80", at: start)
        let (first, second) = (reported.invalidate("a:80", at: late), old.invalidate("a:80", at: late))
        #expect(first.isEmpty && second.isEmpty)
    }

    /// Consecutive failures are counted, so successes between them must be reported first, even if all permits are in
    /// use.
    @Test func successesAreReportedBeforeAFailure() {
        var cache = cache(permit("1"))
        _ = cache.reuse("a:80", at: start)
        let (first, second) = (cache.invalidate("a:80", at: start), cache.invalidate("a:80", at: start))
        #expect(first == [permit("")] && second.isEmpty)
    }

    /// Fault: it was dropped, and occupied a slot at its host until it expired in Redis.
    @Test func failedReleasesAreRepeatedUntilThePermitExpires() {
        let later = start + PermitCache.idleTime
        var cache = cache(permit("1"), permit("2", "b:80"))
        let first = cache.removeUnused(at: later)
        #expect(first.count == 2 && cache.isEmpty)
        cache.retryLater(first)
        let isEmpty = cache.isEmpty
        #expect(!isEmpty, "there are permits to release")
        let second = cache.removeUnused(at: later + .seconds(1))
        #expect(second.map(\.expiry) == first.map(\.expiry), "the expiry stays")
        #expect(
            first.allSatisfy { !$0.isLate } && second.allSatisfy(\.isLate),
            "a late success would clear newer failures"
        )
        cache.retryLater(second)
        let third = cache.removeUnused(at: later + HostRateLimiter.permitLifetime)
        #expect(third.isEmpty && cache.isEmpty)
    }

    /// Fault: at the end of the process, late successes were reported like current ones, and cleared newer failures.
    @Test func lateReleasesStayLateAtTheEnd() {
        let later = start + PermitCache.idleTime
        var cache = cache(permit("1"))
        let unused = cache.removeUnused(at: later)
        cache.retryLater(unused)
        _ = cache.store(permit("2", "b:80"), granted: later, at: later)
        let rest = cache.removeAll(at: later)
        #expect(rest.map(\.permit) == [permit("1"), permit("2", "b:80")] && cache.isEmpty)
        #expect(rest.map(\.isLate) == [true, false])
        cache.retryLater(unused)
        let none = cache.removeAll(at: later + HostRateLimiter.permitLifetime)
        #expect(none.isEmpty, "Redis has forgotten it")
    }
}
