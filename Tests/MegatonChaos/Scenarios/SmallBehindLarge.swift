import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport

/// No. 26: a small batch does not wait for a large one that came before, and the large one costs little memory.
struct SmallBehindLarge: Scenario {
    static let name = "small-behind-large"
    static let summary = "a batch of ten behind one of ten million: done in 5 s; and the memory of a waiting job"

    /// 2.5 GB of Redis.
    private static let jobs = 10_000_000
    /// Jobs that wait when the cluster starts; the rest is pushed while the small batch runs.
    private static let first = 9_000_000
    /// Bytes, with a margin.
    private static let neededMemory = 4_000_000_000
    private static let sources = 100
    private static let smallJobs = 10
    private static let limit: Duration = .seconds(5)
    /// Bytes of Redis that a waiting job may cost, including its JSON.
    private static let memoryLimit = 300

    /// A job's JSON before and after its number.
    private struct Template: Sendable {
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

    /// The large batch and its progress into Redis.
    private struct Bulk: Sendable {
        let templates: [Template]
        let submitter: BatchSubmitter
        private let end = Switch()

        init(templates: [Template], submitter: BatchSubmitter) {
            self.templates = templates
            self.submitter = submitter
        }

        /// Whether Redis has all of it.
        var isPushed: Bool { end.isSet }

        func push(_ numbers: Range<Int>) async throws {
            for number in numbers {
                try Task.checkCancellation()
                let job = templates[number % templates.count].json(number)
                try await submitter.add(job)
            }
        }

        /// Pushes the rest and sets `isPushed`.
        func pushLast(_ numbers: Range<Int>) async throws {
            try await push(numbers)
            try await submitter.close()
            end.set()
        }
    }

    func run(_ stage: Stage) async throws -> ScenarioResult {
        try Self.requireMemory()
        var options = SmallCluster.Options()
        // Without persistence: the subjects are memory and fairness.
        options.control = []
        return try await SmallCluster.run(stage, options) { cluster, result in
            let image = TestImage.quarters(width: 100, height: 100)
            let origin = try await OriginServer.start { _ in .image(image) }
            defer { origin.stop() }
            let bulk = Bulk(
                templates: (0..<Self.sources).map { Template(origin.url("/large/\($0).png").absoluteString) },
                submitter: BatchSubmitter(queue: cluster.view.queue, batch: "bulk")
            )
            try await pushFirst(bulk, cluster, stage, &result)
            // Started only now, so that the backlog does not shrink while it is measured.
            try await cluster.start(workers: 2, stage)
            try await stage.reach("a fleet at work", within: .seconds(60)) { try await cluster.view.done() >= 1000 }
            async let rest: Void = bulk.pushLast(Self.first..<Self.jobs)
            try await submitSmall(origin, bulk, cluster, stage, &result)
            try await rest
            let pushed = await bulk.submitter.submitted
            result.require(pushed == Self.jobs, "Redis has \(pushed) of \(Self.jobs) jobs")
            try await cancel(cluster, stage, &result)
        }
    }

    /// Fails early if memory is short, before the kernel would kill Redis, its client or the fleet.
    private static func requireMemory() throws {
        let text = String(decoding: FileManager.default.contents(atPath: "/proc/meminfo") ?? Data(), as: UTF8.self)
        let line = text.split(separator: "\n").first { $0.hasPrefix("MemAvailable:") }
        // The unit is given as kB, but means KiB.
        let available = line?.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        guard available * 1024 >= neededMemory else {
            throw Stage.NotReached(
                what: "4 GB of memory for ten million jobs: MemAvailable in /proc/meminfo says \(available / 1024) MiB"
            )
        }
    }

    /// Pushes the part that waits before the cluster starts.
    private func pushFirst(
        _ bulk: Bulk,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let before = try await Stage.info("used_memory", in: "memory", cluster.client)
        let start = stage.clock.now
        try await bulk.push(0..<Self.first)
        let took = start.duration(to: stage.clock.now)
        let after = try await Stage.info("used_memory", in: "memory", cluster.client)
        let each = (after - before) / Self.first
        result.note("\(Self.first) jobs pushed in \(Stage.seconds(took))")
        let json = bulk.templates[0].json(500_000).count
        result.note("a job that waits: \(each) bytes of Redis, of them \(json) its JSON")
        result.require(each <= Self.memoryLimit, "a job that waits costs \(each) bytes, not \(Self.memoryLimit)")
    }

    private func submitSmall(
        _ origin: OriginServer,
        _ bulk: Bulk,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let list = "\(stage.directory)/small.txt"
        try JobList.write((0..<Self.smallJobs).map { origin.url("/small/\($0).png").absoluteString }, to: list)
        let ahead = try await cluster.view.batch("bulk")
        let start = stage.clock.now
        let submit = try cluster.fleet.launch(command: ["submit", list, "--wait", "--json", "--batch", "small"])
        defer { submit.send(SIGKILL) }
        let code = await Fleet.ending(of: submit, within: .seconds(120))
        let took = start.duration(to: stage.clock.now)
        result.require(!bulk.isPushed, "the large batch was pushed before the small one had ended")
        let counters = try await cluster.view.batch("small")
        result.note(
            "\(counters["done"]) jobs behind \(ahead["submitted"] - ahead.ended), while more came: "
                + "\(Stage.seconds(took)) with the process"
        )
        if let first = try await cluster.view.time("created", ofBatch: "small"),
            let last = try await cluster.view.time("finished", ofBatch: "small")
        {
            result.note("from the push to the last end: \(last - first) ms")
        }
        result.require(code == 0, "the small batch's submitter ended with \(code.map(String.init) ?? "nothing")")
        result.require(counters["done"] == Self.smallJobs, "\(counters["done"]) of the small batch are done")
        result.require(took <= Self.limit, "the small batch took \(Stage.seconds(took))")
    }

    /// Cancels the rest of the large batch, which is no longer needed.
    private func cancel(_ cluster: SmallCluster, _ stage: Stage, _ result: inout ScenarioResult) async throws {
        try await cluster.view.queue.cancel(batch: "bulk")
        let took = try await stage.wait(atMost: .seconds(60)) { try await cluster.view.batch("bulk").isFinished }
        let counters = try await cluster.view.batch("bulk")
        result.note("\(counters["cancelled"]) cancelled: over in \(took.map(Stage.seconds) ?? "more than a minute")")
        result.require(took != nil, "the large batch was not over a minute after its cancellation")
        result.require(counters.ended == Self.jobs, "\(counters.ended) of \(Self.jobs) jobs of the large batch ended")
    }
}
