import Foundation
import Logging
import MegatonBenchmarks
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Synchronization
import Testing

@testable import MegatonCluster

/// The cost of a worker's death for the throughput of the others. `scripts/chaos scenarios pace` measures it with
/// processes.
@Suite(.timeLimit(.minutes(2))) struct StallPaceTests {
    /// Runs a worker with `places` slots whose jobs never end, until it has started `count` of them.
    private func workers(places: Int, start count: Int, _ fixture: QueueFixture) async throws -> Set<String> {
        let started = Mutex<Set<String>>([])
        let signal = ShutdownSignal()
        let workers = SimulatedWorkers(
            1,
            concurrency: places,
            hosts: 0,
            queue: QueueAddress([fixture.server.configuration], queue: fixture.keys.queue),
            group: MultiThreadedEventLoopGroup.singleton,
            name: "survivor",
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            work: { .seconds(3600) },
            onStart: { id in
                let isEnough = started.withLock { started in
                    started.insert(id)
                    return started.count == count
                }
                if isEnough { signal.raise(to: .abort) }
            }
        )
        try await workers.run(until: signal)
        return started.withLock { $0 }
    }

    private func admit(_ ids: [String], _ fixture: QueueFixture) async throws {
        for id in ids { try await fixture.push(QueueFixture.job(id)) }
        try await fixture.admit()
    }

    // Fault: each of them ran alone, and the other slots were empty.
    @Test func jobsOfADeadWorkerRunConcurrently() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit((0..<16).map { "\($0)" }, fixture)
            for job in try await fixture.claim(16, worker: "dead") { try await fixture.expire(job) }
            try await fixture.queue.sweep(leads: true)
            #expect(try await workers(places: 16, start: 16, fixture).count == 16)
        }
    }

    @Test func oneSuspectRunsWhileTheOtherPlacesGoOn() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["suspect-1", "suspect-2"], fixture)
            for worker in ["dead-1", "dead-2"] {
                for job in try await fixture.claim(2, worker: worker) { try await fixture.expire(job) }
                try await fixture.queue.sweep(leads: true)
            }
            try await admit((0..<15).map { "\($0)" }, fixture)
            let started = try await workers(places: 16, start: 16, fixture)
            #expect(started.count == 16 && started.count { $0.hasPrefix("suspect") } == 1)
        }
    }
}
