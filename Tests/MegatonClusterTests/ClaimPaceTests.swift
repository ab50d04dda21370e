import Testing

@testable import MegatonCluster

struct ClaimPaceTests {
    private let start = ContinuousClock.now

    @Test func aWorkerWithLittleInHandAsksAtOnce() {
        var pace = ClaimPace(concurrency: 16)
        #expect(pace.next(inHand: 0, isCalled: false) == nil)
        pace.claimed(8, at: start)
        #expect(pace.next(inHand: 8, isCalled: false) == nil)
    }

    @Test func aWorkerWithEnoughToDoLetsPlacesGather() {
        var pace = ClaimPace(concurrency: 16)
        pace.claimed(16, at: start)
        #expect(pace.next(inHand: 15, isCalled: false) == start + ClaimPace.pause)
    }

    @Test func afterALookInVainOnlyATokenHastens() {
        var pace = ClaimPace(concurrency: 16)
        pace.claimed(0, at: start)
        #expect(pace.next(inHand: 1, isCalled: false) == start + ClaimPace.pause)
        #expect(pace.next(inHand: 1, isCalled: true) == nil)
    }

    @Test func whatWasLeftToOthersIsTakenSoonAfter() {
        var pace = ClaimPace(concurrency: 16)
        pace.claimed(4, left: 2, at: start)
        #expect(pace.hasLeftJobs && !pace.ignoresShare(at: start))
        #expect(pace.next(inHand: 4, isCalled: false) == start + ClaimPace.pause)
        pace.claimed(0, left: 2, at: start + .milliseconds(5))
        #expect(pace.ignoresShare(at: start + ClaimPace.pause), "counted from the first time")
        pace.claimed(2, at: start + ClaimPace.pause)
        #expect(!pace.hasLeftJobs && !pace.ignoresShare(at: start + .seconds(1)))
    }
}
