import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// Worker processes that simulate rendering, so that the measured throughput is that of the queue and not of the
/// machine.
struct PretendedFleet {
    let cluster: SmallCluster
    let stage: Stage
    /// Duration of a job in milliseconds.
    let milliseconds: Int

    /// Starts a process.
    ///
    /// - Parameters:
    ///   - workers: number of workers that it simulates.
    ///   - places: concurrent jobs of each worker.
    func start(workers: Int = 1, places: Int) throws -> ProgramUnderTest {
        try cluster.fleet.launch(benchmark: [
            "cluster-workers", "--workers", String(workers), "--concurrency", String(places), "--hosts", "0",
            "--render-ms", String(milliseconds),
        ])
    }

    /// Pushes jobs with distinct sources to the public list.
    func push(_ count: Int) async throws {
        let list = RedisArgument.string("megaton:{default}:jobs")
        for start in stride(from: 0, to: count, by: 500) {
            let jobs = (start..<min(start + 500, count)).map { number in
                Job(id: "job-\(number)", source: "https://example.org/\(number).jpg").json()
            }
            let arguments = jobs.map { RedisArgument.buffer(ByteBuffer(bytes: $0)) }
            try await cluster.client.send(RedisCommand(["LPUSH", list] + arguments))
        }
    }

    /// Jobs done per second, measured over `duration`.
    func pace(over duration: Duration) async throws -> Double {
        let (before, start) = (try await cluster.view.done(), stage.clock.now)
        try await stage.clock.sleep(for: duration)
        let parts = start.duration(to: stage.clock.now).components
        let seconds = Double(parts.seconds) + Double(parts.attoseconds) / 1e18
        return Double(try await cluster.view.done() - before) / seconds
    }
}
