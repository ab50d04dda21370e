import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// Whether processes make progress: the watchdog of a service manager ends those that do not.
@Suite(.timeLimit(.minutes(1))) struct PulseTests {
    @Test func aLoopIsOverdueOnceItsLastRoundIsLongAgo() {
        let (pulse, start) = (Pulse(), ContinuousClock.now)
        #expect(!pulse.isOverdue(at: start + .seconds(3600)), "before the first round")
        pulse.beat(at: start)
        #expect(!pulse.isOverdue(at: start + Pulse.limit))
        #expect(pulse.isOverdue(at: start + Pulse.limit + .seconds(1)))
        #expect(!pulse.isOverdue(after: .seconds(3600), at: start + .seconds(3600)))
        pulse.beat(at: start + .seconds(200))
        #expect(!pulse.isOverdue(at: start + .seconds(300)))
    }

    /// A worker that is started again would not reach its Redis either.
    @Test func aHeartbeatThatFailsIsProgress() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let heartbeat = fixture.heartbeat(interval: .seconds(1))
            await fixture.server.crash()
            #expect(!heartbeat.pulse.isOverdue(after: .zero), "no round has ended")
            #expect(await heartbeat.renew() != nil)
            #expect(heartbeat.pulse.isOverdue(after: .zero) && !heartbeat.pulse.isOverdue())
        }
    }
}
