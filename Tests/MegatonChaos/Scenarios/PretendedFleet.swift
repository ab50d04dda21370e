import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// Worker processes that pretend to render: with them the pace of a queue is measured without the machine's.
struct PretendedFleet {
    let cluster: SmallCluster
    let stage: Stage
    /// Milliseconds that a job takes.
    let milliseconds: Int

    /// Starts a process.
    ///
    /// - Parameters:
    ///   - workers: how many it pretends to be.
    ///   - places: jobs that each has in hand at a time.
    func start(workers: Int = 1, places: Int) throws -> ProgramUnderTest {
        try cluster.fleet.launch(command: [
            "bench", "cluster-workers", "--workers", String(workers), "--concurrency", String(places), "--hosts", "0",
            "--render-ms", String(milliseconds),
        ])
    }

    /// Pushes jobs, each with a source of its own, to the public list.
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

    /// Jobs that are done in a second, measured for so long.
    func pace(over duration: Duration) async throws -> Double {
        let (before, start) = (try await cluster.view.done(), stage.clock.now)
        try await stage.clock.sleep(for: duration)
        let parts = start.duration(to: stage.clock.now).components
        let seconds = Double(parts.seconds) + Double(parts.attoseconds) / 1e18
        return Double(try await cluster.view.done() - before) / seconds
    }
}
