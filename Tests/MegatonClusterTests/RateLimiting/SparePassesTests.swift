import MegatonPipeline
import Testing

@testable import MegatonCluster

struct SparePassesTests {
    private let start = ContinuousClock.now

    private func pass(_ token: String, _ host: String = "a:80") -> OriginPass { OriginPass(host: host, token: token) }

    /// A cache with permits that were granted, and stored, at the start.
    private func spares(_ passes: OriginPass...) -> SparePasses {
        var spares = SparePasses()
        for pass in passes { _ = spares.put(pass, given: start, at: start) }
        return spares
    }

    @Test func onePassServesSeveralRequests() {
        var spares = spares(pass("1"), pass("2"))
        let other = spares.take("b:80", at: start)
        #expect(other?.pass == nil)
        let (last, first, none) = (
            spares.take("a:80", at: start), spares.take("a:80", at: start), spares.take("a:80", at: start)
        )
        #expect(last?.pass == pass("2"), "the first one is to become too many")
        #expect(first?.pass == pass("1") && first?.given == start)
        #expect(none?.pass == nil && spares.isEmpty)
    }

    @Test func aPassServesForAMoment() {
        let late = start + SparePasses.lifetime
        var spares = spares(pass("1"))
        let (isKept, taken, unused) = (
            spares.put(pass("2"), given: start, at: late), spares.take("a:80", at: late), spares.unused(at: late)
        )
        #expect(!isKept && taken?.pass == nil)
        #expect(unused.map(\.pass) == [pass("1")] && spares.isEmpty)
    }

    @Test func whatNobodyUsesGoesBack() {
        let later = start + SparePasses.rest
        var spares = spares(pass("1"))
        _ = spares.put(pass("2"), given: start, at: later)
        let (unused, rest) = (spares.unused(at: later), spares.removeAll(at: later))
        #expect(unused.map(\.pass) == [pass("1")] && rest.map(\.pass) == [pass("2")] && spares.isEmpty)
    }

    @Test func whatWasGivenBeforeAFailureServesNoMore() {
        let failed = start + .milliseconds(1)
        var spares = spares(pass("1"), pass("2", "b:80"))
        let back = spares.distrust("a:80", at: failed)
        #expect(back == [pass("1")])
        let (before, after) = (
            spares.put(pass("3"), given: start, at: failed),
            spares.put(pass("4"), given: failed + .milliseconds(1), at: failed + .milliseconds(2))
        )
        #expect(!before && after)
        let other = spares.take("b:80", at: failed)
        #expect(other?.pass != nil, "it is another host's failure")
    }

    /// Successes that are already reported, or long ago, are not reported.
    @Test func onlyAnswersOfJustNowAreTold() {
        let late = start + SparePasses.lifetime
        var told = spares(pass("1"))
        _ = told.take("a:80", at: start)
        _ = told.put(pass("1"), given: start, at: late)
        var old = spares(pass("1"))
        _ = old.take("a:80", at: start)
        let (first, second) = (told.distrust("a:80", at: late), old.distrust("a:80", at: late))
        #expect(first.isEmpty && second.isEmpty)
    }

    /// Consecutive failures are counted, so successes between them must be reported first, even if all permits are in
    /// use.
    @Test func answersAreToldBeforeAFailure() {
        var spares = spares(pass("1"))
        _ = spares.take("a:80", at: start)
        let (first, second) = (spares.distrust("a:80", at: start), spares.distrust("a:80", at: start))
        #expect(first == [pass("")] && second.isEmpty)
    }

    /// Fault: it was dropped, and occupied a slot at its host until it expired in Redis.
    @Test func whatCouldNotGoBackIsTriedAgainUntilItIsForgotten() {
        let later = start + SparePasses.rest
        var spares = spares(pass("1"), pass("2", "b:80"))
        let first = spares.unused(at: later)
        #expect(first.count == 2 && spares.isEmpty)
        spares.keep(first)
        let isEmpty = spares.isEmpty
        #expect(!isEmpty, "there is something to give back")
        let second = spares.unused(at: later + .seconds(1))
        #expect(second.map(\.until) == first.map(\.until), "for no longer than before")
        #expect(first.allSatisfy { !$0.isLate } && second.allSatisfy(\.isLate), "an old answer would end new failures")
        spares.keep(second)
        let third = spares.unused(at: later + HostGate.passLifetime)
        #expect(third.isEmpty && spares.isEmpty)
    }

    /// Fault: at the end of the process, late successes were reported like current ones, and cleared newer failures.
    @Test func whatIsLateIsLateAtTheEndToo() {
        let later = start + SparePasses.rest
        var spares = spares(pass("1"))
        let unused = spares.unused(at: later)
        spares.keep(unused)
        _ = spares.put(pass("2", "b:80"), given: later, at: later)
        let rest = spares.removeAll(at: later)
        #expect(rest.map(\.pass) == [pass("1"), pass("2", "b:80")] && spares.isEmpty)
        #expect(rest.map(\.isLate) == [true, false])
        spares.keep(unused)
        let none = spares.removeAll(at: later + HostGate.passLifetime)
        #expect(none.isEmpty, "Redis has forgotten it")
    }
}
