import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport

/// No. 24: origins that refuse, lie, drip, or never end, all at once. Each costs no more than its limits of time and
/// memory, and fetches from good origins go on.
struct BadOrigins: Scenario {
    static let name = "bad-origins"
    static let summary = "drips, floods, lies and a 429 all at once: deadlines and memory hold, nothing bad is kept"

    private static let batch = "bad"
    private static let mebibyte = 1024 * 1024
    /// Good jobs in each lot beside the bad ones, and the time limit of a lot.
    private static let goodJobs = 50
    private static let goodLimit: Duration = .seconds(10)
    /// Maximum number of lots, in case the bad jobs never end.
    private static let mostLots = 60
    /// Retry-After in seconds.
    private static let retryAfter = 30
    /// Redis counts whole milliseconds, by its own clock.
    private static let earliest: Duration = .milliseconds(retryAfter * 1000 - 10)
    /// A tenth of random jitter, a sweep each second, and two seconds for the rest.
    private static let latest: Duration = .seconds(retryAfter + 3 + 1 + 2)
    /// Memory for rendering and the allocator, beside the bodies.
    private static let memoryMargin = 64 * mebibyte

    /// Jobs for the host that had refused, from either worker.
    private static let again = "again"
    private static let refused = ["refused", "refused-too"]
    private static let jobsAgain = 8

    /// A host that responds with 429 to two paths, which blocks the whole host, and serves all other paths.
    private struct Busy {
        let server: OriginServer
        let refused: RequestLog
        let accepted: RequestLog

        init() async throws {
            let (refused, accepted) = (RequestLog(), RequestLog())
            server = try await OriginServer.start { path in
                guard path.hasPrefix("/refused") else {
                    accepted.note()
                    return .image(BadOrigin.image)
                }
                refused.note()
                return .init(status: 429, headers: [("Retry-After", String(BadOrigins.retryAfter))])
            }
            self.refused = refused
            self.accepted = accepted
        }
    }

    func run(_ stage: Stage) async throws -> ScenarioResult {
        var options = SmallCluster.Options()
        // Slots for all bad jobs at once, and for good ones beside them.
        options.workerArguments = ["--concurrency", "32"]
        return try await SmallCluster.run(stage, options) { cluster, result in
            let good = try await OriginServer.start { _ in .image(BadOrigin.image) }
            defer { good.stop() }
            let busy = try await Busy()
            defer { busy.server.stop() }
            var servers: [OriginServer] = []
            defer { for server in servers { server.stop() } }
            for kind in BadOrigin.all { servers.append(try await kind.start()) }
            try await cluster.start(workers: 1, stage)
            let worker = cluster.fleet.workers[0].process.pid

            _ = try await work("before", good, cluster, stage)
            let memory = Self.memory("VmHWM", of: worker)
            let start = try await Stage.time(cluster.client)
            // Quick failures go first: the others keep the worker busy for seconds.
            var sources = Self.refused.map { (id: $0, url: busy.server.url("/\($0)")) }
            for isQuick in [true, false] {
                for (kind, server) in zip(BadOrigin.all, servers) where kind.isQuick == isQuick {
                    sources += kind.ids.map { (id: $0, url: server.url("/\($0)")) }
                }
            }
            try await submit(sources, as: Self.batch, attempts: 1, cluster)
            try await comeBack(busy, cluster, stage)
            let lots = try await workBeside(good, cluster, stage, &result)
            judge(memory, of: worker, &result)
            for (kind, server) in zip(BadOrigin.all, servers) {
                try await judge(kind, server, since: start, cluster, &result)
            }
            try await judge(busy, cluster, stage, &result)
            // One lot before the bad jobs, the lots beside them, and the retries at the host that had refused.
            try await judgeCache((lots + 1) * Self.goodJobs + Self.jobsAgain, cluster, &result)
            let leases = try await cluster.view.leases()
            result.require(leases.stalled == 0, "\(leases.stalled) leases ran out")
            // The last lines of the histories are written when workers end.
            result.add(violations: await cluster.endFleet())
            try judgeClaims(cluster, &result)
        }
    }

    // MARK: - Jobs

    private func submit(
        _ sources: [(id: String, url: URL)],
        as batch: String,
        attempts: Int = 5,
        _ cluster: SmallCluster
    ) async throws {
        let submitter = BatchSubmitter(queue: cluster.view.queue, batch: batch)
        for source in sources {
            let job = Job(id: source.id, source: source.url.absoluteString, batch: batch, attempts: attempts)
            try await submitter.add(job.json())
        }
        try await submitter.close()
    }

    /// Runs good jobs with distinct sources, and waits for them.
    ///
    /// - Returns: the time they took.
    private func work(
        _ batch: String,
        _ origin: OriginServer,
        _ cluster: SmallCluster,
        _ stage: Stage
    ) async throws -> Duration {
        let ids = (0..<Self.goodJobs).map { "\(batch)-\($0)" }
        let start = stage.clock.now
        try await submit(ids.map { (id: $0, url: origin.url("/\($0).png")) }, as: batch, cluster)
        try await stage.reach("\(Self.goodJobs) good jobs done", within: .seconds(60)) {
            try await cluster.view.batch(batch)["done"] == Self.goodJobs
        }
        return start.duration(to: stage.clock.now)
    }

    /// Runs good jobs, one lot after the other, until the bad ones have ended.
    ///
    /// - Returns: number of lots.
    private func workBeside(
        _ origin: OriginServer,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws -> Int {
        var (lots, longest) = (0, Duration.zero)
        repeat {
            longest = max(longest, try await work("good-\(lots)", origin, cluster, stage))
            lots += 1
            try await stage.clock.sleep(for: .seconds(1))
        } while try await !cluster.view.batch(Self.batch).isFinished && lots < Self.mostLots
        result.note(
            "beside them \(lots) lots of \(Self.goodJobs) good jobs, done in \(Stage.seconds(longest)) at the longest"
        )
        result.require(longest <= Self.goodLimit, "\(Self.goodJobs) good jobs took \(Stage.seconds(longest))")
        return lots
    }

    /// Submits jobs for the host that has just refused, from two workers of which one has never asked it. They have a
    /// single attempt: waiting for the host must not use it up.
    private func comeBack(_ busy: Busy, _ cluster: SmallCluster, _ stage: Stage) async throws {
        // A job's completion follows the report about its host.
        for id in Self.refused {
            try await stage.reach("the end of the job \(id)", within: .seconds(10)) {
                try await letter(id, cluster) != nil
            }
        }
        try cluster.fleet.startWorkers(1)
        try await stage.ready(cluster.client, workers: 2)
        let sources = (0..<Self.jobsAgain).map { (id: "again-\($0)", url: busy.server.url("/again-\($0)")) }
        try await submit(sources, as: Self.again, attempts: 1, cluster)
    }

    // MARK: - Judging

    /// Checks the error and time of each of its jobs, and the bytes that its server sent.
    private func judge(
        _ kind: BadOrigin,
        _ server: OriginServer,
        since start: Int,
        _ cluster: SmallCluster,
        _ result: inout ScenarioResult
    ) async throws {
        var longest = Duration.zero
        for id in kind.ids {
            let letter = try await letter(id, cluster)
            let (died, code) = (letter.map { Int(($0.died * 1000).rounded()) }, letter?.content.code)
            result.require(code == kind.code.rawValue, "\(id) died of \(code ?? "nothing"), not \(kind.code.rawValue)")
            if let died { longest = max(longest, .milliseconds(died - start)) }
        }
        var figure = "\(kind.name): \(kind.code.rawValue) after \(Stage.seconds(longest))"
        if let most = kind.mostBytes {
            let bytes = kind.ids.map { server.streamed("/\($0)") }.max() ?? 0
            figure += ", \(bytes / Self.mebibyte) MiB sent"
            result.require(bytes < most, "\(kind.name): \(bytes) bytes were sent before it was cut off, not \(most)")
        }
        result.note(figure)
        result.require(longest <= kind.limit, "\(kind.name): that took longer than \(Stage.seconds(kind.limit))")
        result.require(server.total == kind.jobs, "\(kind.name): asked \(server.total) times for \(kind.jobs) jobs")
    }

    /// Both workers must have claimed jobs of that host, or the test would not show that its state is shared.
    private func judgeClaims(_ cluster: SmallCluster, _ result: inout ScenarioResult) throws {
        let ids = (0..<Self.jobsAgain).map { "again-\($0)" }
        let claims = try cluster.fleet.workers.map { worker in
            let history = try HistoryChecker([worker.history])
            return ids.reduce(0) { $0 + (history.claimsByJob[$1] ?? 0) }
        }
        result.note("claims of the \(Self.jobsAgain) jobs for that host, by worker: \(claims)")
        result.require(claims.count == 2 && claims.allSatisfy { $0 > 0 }, "not both workers had jobs for that host")
    }

    private func letter(_ id: String, _ cluster: SmallCluster) async throws -> DeadLetter? {
        try await JobQueue(cluster.client, keys: QueueKeys()).deadLetter(id: id)
    }

    /// No request comes before Retry-After has passed, and all come soon after it.
    private func judge(
        _ busy: Busy,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let code = try await letter("refused", cluster)?.content.code
        result.require(
            code == ImagePipeline.Error.Code.httpStatus.rawValue,
            "the refused job died of \(code ?? "nothing")"
        )
        let done = try await stage.wait(atMost: Self.latest) {
            try await cluster.view.batch(Self.again).isFinished
        }
        result.require(done != nil, "the jobs for the host that had refused did not end")
        result.requireDone(Self.jobsAgain, of: Self.again, try await cluster.view.batch(Self.again))
        guard let refusal = busy.refused.first, let next = busy.accepted.first else {
            result.add(violations: ["the host that refuses was not asked again"])
            return
        }
        let pause = refusal.duration(to: next)
        result.note("429 with Retry-After \(Self.retryAfter): the next request \(Stage.seconds(pause)) later")
        result.require(pause >= Self.earliest, "the host that had refused was asked before its time")
        result.require(pause <= Self.latest, "the host that had refused was asked too late")
        let requests = busy.server.total - Self.refused.count
        result.require(
            requests == Self.jobsAgain,
            "\(requests) requests after the refusals for \(Self.jobsAgain) jobs"
        )
    }

    private func judge(_ before: Int, of worker: Int32, _ result: inout ScenarioResult) {
        let bodies = BadOrigin.all.filter(\.fillsMemory).reduce(0) { $0 + $1.jobs }
        let most = before + bodies * BadOrigin.bodyLimit + Self.memoryMargin
        let (peak, now) = (Self.memory("VmHWM", of: worker), Self.memory("VmRSS", of: worker))
        result.note(
            "memory of the worker: \(before / Self.mebibyte) MiB before, \(peak / Self.mebibyte) MiB at the most with "
                + "\(bodies) bodies of 64 MiB at a time, \(now / Self.mebibyte) MiB in the end"
        )
        result.require(before > 0 && peak > 0, "the worker's memory could not be read")
        result.require(peak <= most, "the worker took more than \(most / Self.mebibyte) MiB")
    }

    /// Checks that the cache only has entries from good origins: an original and a rendition of each source.
    private func judgeCache(_ sources: Int, _ cluster: SmallCluster, _ result: inout ScenarioResult) async throws {
        for (kind, expected) in [("o", sources), ("r", sources), ("t", 0)] {
            let kept = try await cluster.cache.send(["KEYS", .string("megaton:\(kind):*")]).array?.count ?? -1
            result.require(kept == expected, "\(kept) keys of the kind \(kind) are in the cache, not \(expected)")
        }
    }

    /// A field of the kernel's process status (proc(5)), in bytes; 0 if it cannot be read.
    private static func memory(_ field: String, of pid: Int32) -> Int {
        let status = FileManager.default.contents(atPath: "/proc/\(pid)/status") ?? Data()
        let lines = String(decoding: status, as: UTF8.self).split(separator: "\n")
        let words = lines.first { $0.hasPrefix(field + ":") }?.split(whereSeparator: \.isWhitespace) ?? []
        // The unit is given as kB, but means KiB.
        return words.count > 1 ? (Int(words[1]) ?? 0) * 1024 : 0
    }
}
