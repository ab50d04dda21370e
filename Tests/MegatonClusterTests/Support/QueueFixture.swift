import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore

@testable import MegatonCluster

/// A queue on the test's own Redis, with helpers for the steps of a job's life.
struct QueueFixture: Sendable {
    let server: RedisServerProcess
    let redis: RedisClient
    let queue: JobQueue
    let leadership: Leadership
    let intake: Intake
    let epoch: Int

    static func run(
        _ options: RedisServerProcess.Options = .init(),
        _ body: (QueueFixture) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run(options) { server in
            let redis = server.client()
            defer { redis.close() }
            let queue = JobQueue(redis, keys: QueueKeys(queue: "test"))
            let leadership = Leadership(queue: queue, name: "leader", lease: .seconds(60))
            let epoch = try await leadership.tryToLead() ?? -1
            let presets = ["web": [Rendition(name: "small", width: 10), Rendition(name: "large", width: 20)]]
            let intake = Intake(queue: queue, name: "leader", validator: JobValidator(presets: presets))
            try await body(
                QueueFixture(
                    server: server,
                    redis: redis,
                    queue: queue,
                    leadership: leadership,
                    intake: intake,
                    epoch: epoch
                )
            )
        }
    }

    var keys: QueueKeys { queue.keys }

    static func job(_ id: String, batch: String? = nil, priority: Job.Priority = .normal) -> Data {
        Job(id: id, source: "https://example.org/\(id).jpg", batch: batch, priority: priority).json()
    }

    func push(_ json: Data...) async throws {
        for json in json { try await redis.send(["LPUSH", .string(keys.jobs), .buffer(ByteBuffer(bytes: json))]) }
    }

    @discardableResult
    func admit(window: Int = 1000, chunk: Int = 100) async throws -> Intake.Round {
        var window = AdmissionWindow(limit: window)
        var staged = StagedJobs()
        return try await intake.admit(epoch: epoch, window: &window, staged: &staged, chunk: chunk)
    }

    /// Admits until `count` more jobs are ready: a round validates only a part of the jobs it has staged.
    func admitAll(_ count: Int, window limit: Int = 1000) async throws {
        let before = try await self.count("HLEN", keys.body)
        var (window, staged) = (AdmissionWindow(limit: limit), StagedJobs())
        window.observe(.places(limit))
        while try await self.count("HLEN", keys.body) < before + count {
            _ = try await intake.admit(epoch: epoch, window: &window, staged: &staged, chunk: 100)
        }
    }

    /// A round of a leader with a chunk of 40, and with a window that has room for all jobs.
    func round(_ staged: inout StagedJobs) async throws -> Intake.Round {
        var window = AdmissionWindow(limit: 1000)
        window.observe(.places(1000))
        return try await intake.admit(epoch: epoch, window: &window, staged: &staged, chunk: 40)
    }

    /// Submits a whole batch whose ids are unique, also of packs.
    func push(_ jobs: [PushedJob], to batch: String, policy: BatchPolicy = .init()) async throws {
        _ = try await queue.push(
            jobs,
            to: batch,
            first: 0,
            isLast: true,
            policy: policy,
            idsAreUnique: true,
            submitter: "me"
        )
    }

    /// Submits a whole batch.
    func submit(_ jobs: [Data], to batch: String, policy: BatchPolicy = .init()) async throws {
        _ = try await queue.submit(jobs, to: batch, first: 0, isLast: true, policy: policy, submitter: "me")
    }

    func claim(_ limit: Int = 1, worker: String = "w1", lease: Duration = .seconds(60)) async throws -> [ActiveJob] {
        try await queue.claim(limit, worker: worker, lease: lease)
    }

    func finish(
        _ job: ActiveJob,
        worker: String = "w1",
        _ status: JobOutcome.Status = .done
    ) async throws -> SettleResult {
        let dead = status == .failed ? DeadLetter.Content(code: "x", message: "why", job: "{}") : nil
        let outcome = JobOutcome(id: job.id, source: job.id, status: status)
        let end = JobCompletion(job: job, outcome: outcome, dead: dead, counters: ["renders": 1])
        return try await queue.settle([end], worker: worker)[0]
    }

    /// The handler of a worker "w1".
    ///
    /// - Parameter interval: time after which the sources of a pack that have ended are settled.
    func handler(
        _ runner: any JobRunning,
        running: RunningJobs,
        places: Int = 1,
        interval: Duration = .seconds(60),
        retry: RetryPolicy = RetryPolicy(),
        through client: JobQueue? = nil
    ) -> JobHandler {
        let queue = client ?? queue
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        return JobHandler(
            queue: queue,
            completions: CompletionBatcher(queue, worker: "w1", places: places),
            runner: runner,
            running: running,
            statistics: StatisticsRecorder(),
            retry: retry,
            maximumStalls: 3,
            worker: "w1",
            history: History(file: nil, logger: logger),
            logger: logger,
            places: places,
            packInterval: interval
        )
    }

    /// The heartbeat of a worker, without its loop.
    func heartbeat(
        of worker: String = "w0",
        _ running: RunningJobs = RunningJobs(),
        lease: Duration = .seconds(60),
        interval: Duration = .seconds(5),
        pace: IdlePace = IdlePace()
    ) -> LeaseHeartbeat {
        LeaseHeartbeat(
            queue: queue,
            worker: worker,
            info: WorkerInfo(concurrency: 4),
            running: running,
            lease: lease,
            interval: interval,
            statistics: StatisticsRecorder(),
            pace: pace,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    /// Expires a lease without a wait: only Redis' clock counts, and the score is compared with it.
    func expire(_ job: ActiveJob) async throws {
        try await redis.send(["ZADD", .string(keys.lease), "XX", "1", .string(job.key.text)])
    }

    func count(_ command: String, _ key: String) async throws -> Int {
        try await redis.send([.string(command), .string(key)]).int ?? -1
    }

    /// Number of scripts that were run.
    func scriptCalls() async throws -> Int {
        let info = try await redis.send(["INFO", "commandstats"]).string ?? ""
        let lines = info.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("cmdstat_evalsha:calls=") }
        return lines.reduce(0) { sum, line in
            sum + (line.split(separator: "=")[1].split(separator: ",").first.flatMap { Int($0) } ?? 0)
        }
    }

    /// Number of commands that met a key of the wrong type. Commands in scripts are not counted in addition to their
    /// script.
    func refusals() async throws -> Int {
        let info = try await redis.send(["INFO", "errorstats"]).string ?? ""
        let line = info.split(whereSeparator: \.isNewline).first { $0.hasPrefix("errorstat_WRONGTYPE:count=") }
        return line?.split(separator: "=").last.flatMap { Int($0) } ?? 0
    }

    /// Places of an id, in any batch: a job must be in one place at a time.
    func places(_ id: String) async throws -> Set<String> {
        let batches = try await redis.send(["ZRANGE", .string(keys.batches), "0", "-1"]).array ?? []
        let keys = [id] + batches.compactMap(\.string).map { JobKey(batch: $0, id: id).text }
        var places: Set<String> = []
        for key in keys { places.formUnion(try await self.places(key: key)) }
        return places
    }

    private func places(key id: String) async throws -> Set<String> {
        var places: Set<String> = []
        for priority in Job.Priority.allCases {
            if try await redis.send(["LPOS", .string(keys.ready(priority)), .string(id)]).int != nil {
                places.insert("ready")
            }
        }
        if try await redis.send(["LPOS", .string(keys.suspects), .string(id)]).int != nil { places.insert("ready") }
        for (name, key) in [("lease", keys.lease), ("delay", keys.delay), ("dead", keys.dead)] {
            if try await redis.send(["ZSCORE", .string(key), .string(id)]).string != nil { places.insert(name) }
        }
        if try await held().contains(where: { $0.id == id }) { places.insert("held") }
        return places
    }

    /// The jobs that wait for their host, in the order of their turns for each host.
    func held() async throws -> [HoldingEntry] {
        (try await redis.send(["ZRANGE", .string(keys.holding), "0", "-1"]).array ?? [])
            .compactMap { $0.string.flatMap(HoldingEntry.init) }
    }

    /// Kills the server and starts it again from its last file.
    func restart() async throws {
        await server.crash()
        try await server.startAgain()
        // The client may still have the old connection.
        while (try? await redis.send(["PING"])) == nil {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    /// The outcomes behind the first `kept`, for a reader that does not know their digests.
    func results(of batch: String, kept: Int, limit: Int = 1000) async throws -> [Data] {
        try await queue.results(of: batch, after: kept, digest: "", limit: limit).lines
    }

    func batch(_ name: String) async throws -> BatchCounters { BatchCounters(try await queue.batch(name)) }
}

#if MEGATON_SANITIZE
    @_exported public import MegatonCore

    // As `Synchronization.Mutex`, for sanitizers; exported so that all files of this module see its members.
    typealias Mutex = MegatonCore.Mutex
#endif

extension FleetPlaces {
    /// The places of a worker that has one shard.
    static func places(_ count: Int) -> FleetPlaces { FleetPlaces([(count, 1)]) }
}
