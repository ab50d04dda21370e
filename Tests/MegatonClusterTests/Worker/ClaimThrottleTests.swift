import Testing

@testable import MegatonCluster

struct ClaimThrottleTests {
    private let start = ContinuousClock.now

    @Test func aWorkerWithLittleInHandAsksAtOnce() {
        var throttle = ClaimThrottle(concurrency: 16)
        #expect(throttle.next(activeCount: 0, wasNotified: false) == nil)
        throttle.claimed(8, at: start)
        #expect(throttle.next(activeCount: 8, wasNotified: false) == nil)
    }

    @Test func aWorkerWithEnoughToDoLetsPlacesGather() {
        var throttle = ClaimThrottle(concurrency: 16)
        throttle.claimed(16, at: start)
        #expect(throttle.next(activeCount: 15, wasNotified: false) == start + ClaimThrottle.pause)
    }

    @Test func afterALookInVainOnlyATokenHastens() {
        var throttle = ClaimThrottle(concurrency: 16)
        throttle.claimed(0, at: start)
        #expect(throttle.next(activeCount: 1, wasNotified: false) == start + ClaimThrottle.pause)
        #expect(throttle.next(activeCount: 1, wasNotified: true) == nil)
    }

    @Test func jobsLeftToOthersAreClaimedSoonAfter() {
        var throttle = ClaimThrottle(concurrency: 16)
        throttle.claimed(4, left: 2, at: start)
        #expect(throttle.hasLeftJobs && !throttle.ignoresShare(at: start))
        #expect(throttle.next(activeCount: 4, wasNotified: false) == start + ClaimThrottle.pause)
        throttle.claimed(0, left: 2, at: start + .milliseconds(5))
        #expect(throttle.ignoresShare(at: start + ClaimThrottle.pause), "counted from the first time")
        throttle.claimed(2, at: start + ClaimThrottle.pause)
        #expect(!throttle.hasLeftJobs && !throttle.ignoresShare(at: start + .seconds(1)))
    }

    /// Fault: two of three claims of a large fleet with short jobs found nothing.
    @Test func afterAClaimInVainTheNextOnesFollowTokens() {
        var throttle = ClaimThrottle(concurrency: 1)
        throttle.claimed(1, at: start)
        #expect(!throttle.prefersTokens)
        throttle.claimed(0, at: start)
        for _ in 0..<8 {
            #expect(throttle.prefersTokens)
            throttle.claimed(1, wasNotified: true, at: start)
        }
        #expect(!throttle.prefersTokens, "the next claim shows whether jobs are ready by now")
        throttle.claimed(1, at: start)
        #expect(!throttle.prefersTokens)
    }

    /// Fault: a worker with several shards left a job to others, and its only token was gone.
    @Test func jobsLeftToOthersAreForgottenOnce() {
        var throttle = ClaimThrottle(concurrency: 4)
        throttle.claimed(0, left: 1, wasNotified: true, at: start)
        #expect(!throttle.prefersTokens)
        let (first, second) = (throttle.forgetLeftJobs(), throttle.forgetLeftJobs())
        #expect(first && !second && !throttle.hasLeftJobs)
    }
}
