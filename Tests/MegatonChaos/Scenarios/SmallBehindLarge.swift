import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport

/// No. 26: a small batch does not wait for a large one that came before, and the large one costs little memory.
struct SmallBehindLarge: Scenario {
    static let name = "small-behind-large"
    static let summary = "a batch of ten behind one of ten million: done in 5 s; and what a job that waits costs"

    /// 2.5 GB of Redis.
    private static let jobs = 10_000_000
    private static let sources = 100
    private static let smallJobs = 10
    private static let limit: Duration = .seconds(5)
    /// Bytes of Redis that a job may cost that waits, its JSON included.
    private static let memoryLimit = 300

    /// A job's JSON around its number.
    private struct Template {
        let head: String
        let tail: String

        /// The form in which `megaton submit` pushes.
        init(_ source: String) {
            let job = Job(
                id: "bulk.NUMBER",
                source: source,
                renditions: [Rendition(width: 64, height: 64)],
                batch: "bulk"
            )
            let parts = String(decoding: job.json(), as: UTF8.self).components(separatedBy: "NUMBER")
            head = parts[0]
            tail = parts.dropFirst().joined()
        }

        func json(_ number: Int) -> Data { Data((head + String(number) + tail).utf8) }
    }

    /// The cluster does not get through the large batch.
    struct NoProgress: Error {}

    func run(_ stage: Stage) async throws -> Verdict {
        var options = SmallCluster.Options()
        // Nothing on disk: this is about memory and turns.
        options.control = []
        return try await SmallCluster.run(stage, options) { cluster, verdict in
            let image = TestImage.quarters(width: 100, height: 100)
            let origin = try await OriginServer.start { _ in .image(image) }
            defer { origin.stop() }
            try await push(origin, cluster, stage, &verdict)
            // Only now: what is measured is the backlog, not how fast it melts.
            try await cluster.start(workers: 2, stage)
            let moving = try await stage.wait(atMost: .seconds(60)) { try await cluster.view.done() >= 1000 }
            if moving == nil { throw NoProgress() }
            try await submitSmall(origin, cluster, stage, &verdict)
            try await cancel(cluster, stage, &verdict)
        }
    }

    private func push(
        _ origin: OriginServer,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ verdict: inout Verdict
    ) async throws {
        let templates = (0..<Self.sources).map { Template(origin.url("/large/\($0).png").absoluteString) }
        let before = try await memory(cluster.client)
        let submitter = BatchSubmitter(queue: cluster.view.queue, batch: "bulk")
        let start = stage.clock.now
        for number in 0..<Self.jobs { try await submitter.add(templates[number % Self.sources].json(number)) }
        try await submitter.close()
        let took = start.duration(to: stage.clock.now)
        let after = try await memory(cluster.client)
        let each = (after - before) / Self.jobs
        let pushed = await submitter.submitted
        verdict.note("\(pushed) jobs pushed in \(Stage.seconds(took))")
        verdict.note("a job that waits: \(each) bytes of Redis, of them \(templates[0].json(500_000).count) its JSON")
        verdict.require(pushed == Self.jobs, "Redis has \(pushed) of \(Self.jobs) jobs")
        verdict.require(each <= Self.memoryLimit, "a job that waits costs \(each) bytes, not \(Self.memoryLimit)")
    }

    private func memory(_ redis: RedisClient) async throws -> Int {
        let info = try await redis.send(["INFO", "memory"]).string ?? ""
        let field = info.split(whereSeparator: \.isNewline).first { $0.hasPrefix("used_memory:") }
        return field.flatMap { Int($0.dropFirst("used_memory:".count)) } ?? 0
    }

    private func submitSmall(
        _ origin: OriginServer,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ verdict: inout Verdict
    ) async throws {
        let list = "\(stage.directory)/small.txt"
        try JobList.write((0..<Self.smallJobs).map { origin.url("/small/\($0).png").absoluteString }, to: list)
        let ahead = try await cluster.view.batch("bulk")
        let start = stage.clock.now
        let submit = try cluster.fleet.launch(command: ["submit", list, "--wait", "--json", "--batch", "small"])
        defer { submit.send(SIGKILL) }
        let code = await Fleet.ending(of: submit, within: .seconds(120))
        let took = start.duration(to: stage.clock.now)
        let counters = try await cluster.view.batch("small")
        verdict.note(
            "\(counters["done"]) jobs behind \(Self.jobs - ahead.ended): \(Stage.seconds(took)) with the process"
        )
        if let first = try await cluster.view.time("created", ofBatch: "small"),
            let last = try await cluster.view.time("finished", ofBatch: "small")
        {
            verdict.note("from the push to the last end: \(last - first) ms")
        }
        verdict.require(code == 0, "the small batch's submitter ended with \(code.map(String.init) ?? "nothing")")
        verdict.require(counters["done"] == Self.smallJobs, "\(counters["done"]) of the small batch are done")
        verdict.require(took <= Self.limit, "the small batch took \(Stage.seconds(took))")
    }

    /// The rest of the large batch is nobody's wish any more.
    private func cancel(_ cluster: SmallCluster, _ stage: Stage, _ verdict: inout Verdict) async throws {
        try await cluster.view.queue.cancel(batch: "bulk")
        let took = try await stage.wait(atMost: .seconds(60)) { try await cluster.view.batch("bulk").isFinished }
        let counters = try await cluster.view.batch("bulk")
        verdict.note("\(counters["cancelled"]) cancelled: over in \(took.map(Stage.seconds) ?? "more than a minute")")
        verdict.require(took != nil, "the large batch was not over a minute after its cancellation")
        verdict.require(counters.ended == Self.jobs, "\(counters.ended) of \(Self.jobs) jobs of the large batch ended")
    }
}
