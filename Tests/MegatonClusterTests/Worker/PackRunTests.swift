import Foundation
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// The rest of a pack, after its host has refused a request.
@Suite(.timeLimit(.minutes(2))) struct PackRunTests {
    /// Fault: sources that ran until the first answer of their host counted for nothing, so that the rest waited for it
    /// once more.
    @Test(arguments: [(0, 1.0), (400, 0.6), (3_000, 0)])
    func theRestWaitsForWhatIsLeftOfTheWait(passed milliseconds: Int, left: Double) async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(Data(#"{"id":"p","sources":["https://h/a.jpg","https://h/b.jpg"]}"#.utf8))
            while case .admitted = try await fixture.admit() {}
            let active = try #require(try await fixture.claim().first)
            var run = PackRun(try Pack(json: active.json), of: active)
            #expect(run.startNext() != nil)
            let time = ContinuousClock.now
            run.refuse(HostTurn(host: "h:443", wait: 1, interval: 0.003), at: time)
            #expect(run.startNext() == nil, "the host takes no request now")
            let settlement = run.nextSettlement(isLast: true, at: time + .milliseconds(milliseconds))
            guard case .hold(let rest, let turn) = settlement.rest else {
                Issue.record("the rest is not held: \(settlement.rest)")
                return
            }
            #expect(rest.sources.count == 2 && abs(turn.wait - left) < 0.001 && turn.interval == 0.003, "\(turn)")
        }
    }
}
