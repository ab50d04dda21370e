import Foundation
import MegatonPipeline
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// Images that take long to arrive, and a whole worker on its own Redis.
@Suite(.timeLimit(.minutes(2))) struct LongFetchTests {
    /// A body whose first bytes arrive at once, and that does not end.
    private static let endless = OriginServer.Answer(
        headers: [("Content-Type", "image/png")],
        body: Data([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
        announcedLength: 60_000_000,
        stream: OriginStream(piece: Data(count: 2048), interval: .milliseconds(100))
    )

    private func push(_ ids: [String], _ queue: JobQueue, _ origin: OriginServer) async throws {
        for id in ids {
            let job = Job(id: id, source: origin.url("/\(id)").absoluteString)
            try await queue.pushPublicly(String(decoding: job.json(), as: UTF8.self))
        }
    }

    /// Fault: two images that arrived slowly kept a worker with two places from all others.
    @Test func otherJobsRunBesideLongFetches() async throws {
        let image = TestImage.quarters(width: 8, height: 8)
        try await TestWorker.run {
            $0.concurrency = 2
        } answer: {
            $0.hasPrefix("/slow") ? Self.endless : .image(image)
        } _: { (queue, origin) async throws in
            try await push(["slow1", "slow2"], queue, origin)
            for path in ["/slow1", "/slow2"] { await origin.waitForRequests(path, count: 1) }
            try await push(["quick1", "quick2", "quick3"], queue, origin)
            for path in ["/quick1", "/quick2", "/quick3"] { await origin.waitForRequests(path, count: 1) }
            while try await queue.alive() > 2, !Task.isCancelled { await Task.yield() }
            #expect(try await queue.alive() == 2)
        }
    }

    /// Fault: a host that answered at once got four requests until the first of its bodies had arrived.
    @Test func theFirstBytesOfAHostAreItsFirstAnswer() async throws {
        try await TestWorker.run {
            ($0.concurrency, $0.hostLimits.firstConcurrency) = (3, 1)
        } answer: { _ in
            Self.endless
        } _: { (queue, origin) async throws in
            try await push(["a", "b", "c"], queue, origin)
            for path in ["/a", "/b", "/c"] { await origin.waitForRequests(path, count: 1) }
            #expect(origin.total == 3)
        }
    }
}
