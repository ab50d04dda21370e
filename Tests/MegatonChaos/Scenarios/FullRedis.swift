import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport

/// No. 15: a full control Redis refuses new jobs with an error; jobs already there run to their end.
struct FullRedis: Scenario {
    static let name = "full-redis"
    static let summary = "the control Redis is full: submit ends with 69, older jobs are done, and submit works again"

    private static let batch = "held"
    private static let submitted = "submitted"
    private static let workers = 2
    /// Slots of each worker.
    private static let concurrency = 8
    /// More than are admitted at a time, so that each step of a job's life happens while Redis is full.
    private static let jobs = 2000
    /// Bytes of blanks after the JSON of each job, which Redis stores while the job waits: this memory is what drains.
    private static let padding = 4096
    /// Number of jobs in one push.
    private static let chunk = 100
    private static let submittedJobs = 10
    /// Lease in seconds. Shorter than the 10 s after which a worker gives up on a silent origin, so that a lease is
    /// renewed before that.
    private static let lease = 5
    private static let held: Duration = .seconds(7)
    /// `BatchSubmitter` retries a push for a minute.
    private static let limit: Duration = .seconds(75)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        var options = SmallCluster.Options()
        options.workerArguments = ["--concurrency", String(Self.concurrency), "--lease", String(Self.lease)]
        return try await SmallCluster.run(stage, options) { cluster, result in
            let image = TestImage.quarters(width: 32, height: 32)
            let origin = try await OriginServer.start { _ in .image(image) }
            defer { origin.stop() }
            // All jobs of the worker wait for the origin.
            try await cluster.client.noteAnswer(of: origin)
            origin.hold()
            try await cluster.start(workers: Self.workers, stage)
            let room = try await push(origin, cluster)
            try await fill(room, cluster, stage, &result)
            let start = stage.clock.now
            let submit = try launch(origin, cluster, stage)
            defer { submit.send(SIGKILL) }
            try await goOn(origin, cluster, stage, &result)
            result.require(submit.isRunning, "the submitter did not wait until all was done")
            let code = await Fleet.ending(of: submit, within: Self.limit)
            let took = start.duration(to: stage.clock.now)
            // The last line; reports during the wait precede it.
            let words = submit.errors.split(whereSeparator: \.isNewline).last ?? ""
            result.note("megaton submit ended with \(code ?? -1) after \(Stage.seconds(took)): \(words)")
            result.require(code == 69 && took <= Self.limit, "the submitter did not end with 69 within 75 s")
            result.require(words.contains("OOM"), "the submitter does not say that Redis is full")
            // The limit at which Redis was full before: the only free room comes from drained jobs.
            try await setLimit(room, cluster)
            result.note("\(room / 1024) KiB allowed, \(try await memory(cluster) / 1024) KiB used when all was done")
            try await submitAgain(origin, cluster, stage, &result)
            try await judge(cluster, &result)
        }
    }

    // MARK: - Before

    private func job(_ number: Int, _ origin: OriginServer) -> RedisArgument {
        let source = origin.url("/held/\(number).png").absoluteString
        let job = Job(id: "held.\(number)", source: source, batch: Self.batch)
        return .string(String(decoding: job.json(), as: UTF8.self) + String(repeating: " ", count: Self.padding))
    }

    /// - Returns: a memory limit halfway between the usage without the jobs and with them.
    private func push(_ origin: OriginServer, _ cluster: SmallCluster) async throws -> Int {
        let before = try await memory(cluster)
        for first in stride(from: 0, to: Self.jobs, by: Self.chunk) {
            let jobs = (first..<first + Self.chunk).map { job($0, origin) }
            try await cluster.client.send(RedisCommand(["LPUSH", "megaton:{default}:jobs"] + jobs))
        }
        return (before + (try await memory(cluster))) / 2
    }

    private func memory(_ cluster: SmallCluster) async throws -> Int {
        try await Stage.info("used_memory", in: "memory", cluster.client)
    }

    private func setLimit(_ bytes: Int, _ cluster: SmallCluster) async throws {
        try await cluster.client.send(["CONFIG", "SET", "maxmemory", .int(bytes)])
    }

    /// Fills Redis once all slots of the workers are taken.
    ///
    /// - Parameter room: a memory limit at which Redis is full as long as the jobs wait.
    private func fill(
        _ room: Int,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let places = Self.workers * Self.concurrency
        try await stage.reach("jobs in all \(places) places of the workers", within: .seconds(30)) {
            try await leased(cluster, stage).count == places
        }
        let waiting = try await cluster.client.send(["LLEN", "megaton:{default}:jobs"]).int ?? 0
        result.require(waiting > 0, "no job was waiting to be admitted: that proves less")
        try await setLimit(room, cluster)
        try await requireRefusal("although the waiting jobs had filled it", cluster, &result)
        // Less than is ever in use, so that Redis stays full until the last job has ended.
        try await setLimit(1, cluster)
        try await requireRefusal("when it was full", cluster, &result)
    }

    /// Ids of all jobs that are leased.
    private func leased(_ cluster: SmallCluster, _ stage: Stage) async throws -> Set<String> {
        let ids = try await cluster.client.send(["ZRANGE", .string(stage.lease), "0", "-1"]).array ?? []
        return Set(ids.compactMap(\.string))
    }

    // MARK: - While it is full

    /// Checks that a push fails with the right error. If Redis accepts it, the empty job becomes a dead letter at once,
    /// which the counters show too.
    private func requireRefusal(_ when: String, _ cluster: SmallCluster, _ result: inout ScenarioResult) async throws {
        do throws(RedisError) {
            try await cluster.client.send(["LPUSH", "megaton:{default}:jobs", "{}"])
            result.add(violations: ["a push was taken \(when)"])
        } catch {
            guard error.code == .outOfMemory else { throw error }
        }
    }

    /// Launches a submitter; once while Redis is full, and the same command again afterwards.
    private func launch(_ origin: OriginServer, _ cluster: SmallCluster, _ stage: Stage) throws -> ProgramUnderTest {
        let list = "\(stage.directory)/list.txt"
        let urls = (0..<Self.submittedJobs).map { origin.url("/submitted/\($0).png").absoluteString }
        try JobList.write(urls, to: list)
        return try cluster.fleet.launch(command: ["submit", list, "--wait", "--json", "--batch", Self.submitted])
    }

    private func goOn(
        _ origin: OriginServer,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let before = try await leased(cluster, stage)
        try await stage.clock.sleep(for: Self.held)
        let after = try await leased(cluster, stage)
        let stalled = try await cluster.view.stat()["stalled"] ?? 0
        result.note("full for \(Stage.seconds(Self.held)) with a lease of \(Self.lease) s: \(stalled) leases ran out")
        result.require(stalled == 0 && after == before, "leases were not renewed while Redis was full")
        origin.release()
        let took = try await stage.wait(atMost: .seconds(45)) { try await cluster.view.done() == Self.jobs }
        result.note(
            "still full: all \(Self.jobs) jobs done \(took.map(Stage.seconds) ?? "never") after their origin answered"
        )
        result.require(took != nil, "not all jobs were done while Redis was full")
        try await requireRefusal("when all was done", cluster, &result)
    }

    // MARK: - Afterwards

    private func submitAgain(
        _ origin: OriginServer,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let start = stage.clock.now
        let submit = try launch(origin, cluster, stage)
        defer { submit.send(SIGKILL) }
        let code = await Fleet.ending(of: submit, within: .seconds(30))
        let took = start.duration(to: stage.clock.now)
        result.note("with room again: megaton submit ended with \(code ?? -1) after \(Stage.seconds(took))")
        result.require(code == 0, "the submitter failed with room again. \(submit.errors.suffix(300))")
    }

    private func judge(_ cluster: SmallCluster, _ result: inout ScenarioResult) async throws {
        for (name, jobs) in [(Self.batch, Self.jobs), (Self.submitted, Self.submittedJobs)] {
            result.requireDone(jobs, of: name, try await cluster.view.batch(name))
        }
        let dead = try await cluster.view.dead()
        result.require(dead == 0, "\(dead) jobs are dead")
        result.require(try await cluster.view.queue.alive() == 0, "jobs are left over")
        result.add(violations: try await cluster.view.misplaced())
        // Counters of leases are complete when the workers have ended.
        result.add(violations: await cluster.endFleet())
        let stat = try await cluster.view.stat()
        let leases = LeaseCounters(stat)
        result.note("\(stat["done"] ?? 0) done; \(leases.text)")
        result.require(
            stat["done"] == Self.jobs + Self.submittedJobs,
            "\(stat["done"] ?? 0) jobs were done, not \(Self.jobs + Self.submittedJobs)"
        )
        result.require(leases.areZero, "leases were lost")
    }
}
