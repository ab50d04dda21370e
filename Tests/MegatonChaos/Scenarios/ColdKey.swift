import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// One uncached image at a slow origin, and many concurrent jobs for it.
struct ColdKey {
    static let batch = "b"

    /// Number of worker processes.
    let workers: Int
    let jobs: Int
    private let log: RequestLog
    private let origin: OriginServer

    init(workers: Int = 50, jobs: Int = 500) async throws {
        self.workers = workers
        self.jobs = jobs
        let log = RequestLog()
        let image = TestImage.quarters(width: 200, height: 200)
        origin = try await OriginServer.start(delay: .seconds(2)) { _ in
            log.note()
            return .image(image)
        }
        self.log = log
    }

    func stop() { origin.stop() }

    /// Arguments of each worker: all jobs fit into the slots at the same time.
    var arguments: [String] { ["--concurrency", String(jobs / workers)] }

    /// Number of requests to the origin.
    var requests: Int { origin.total }

    /// Starts the workers, and once all of them wait for jobs, pushes all jobs to the public list in one round trip.
    func push(_ cluster: SmallCluster, _ stage: Stage) async throws {
        try await cluster.start(workers: workers, stage)
        try await settle(cluster.client, stage)
        let source = origin.url("/cold.png").absoluteString
        let commands = (0..<jobs).map { number in
            let job = Job(
                id: "cold.\(number)",
                source: source,
                renditions: [Rendition(width: 100, height: 100)],
                batch: Self.batch
            )
            return RedisCommand(["LPUSH", "megaton:{default}:jobs", .buffer(ByteBuffer(bytes: job.json()))])
        }
        for case .error(let text) in try await cluster.client.pipeline(commands) { throw RedisError(reply: text) }
    }

    /// Waits for the first request to the origin, and returns its time.
    func firstRequest(_ stage: Stage) async throws -> ContinuousClock.Instant {
        try await stage.reach("a request to the origin", within: .seconds(30)) { log.first != nil }
        guard let first = log.first else { throw Stage.NotReached(what: "a request to the origin") }
        return first
    }

    // MARK: - Settling

    /// Waits until every worker is idle and the leader has counted its slots: only then does it admit all jobs at once.
    private func settle(_ control: RedisClient, _ stage: Stage) async throws {
        let before = try await looks(control)
        try await stage.reach("workers that sleep and a leader that counted them", within: .seconds(30)) {
            let (asleep, now) = (try await sleeping(control), try await looks(control))
            return asleep >= workers && now > before
        }
    }

    /// Number of workers blocked on a wake token.
    private func sleeping(_ control: RedisClient) async throws -> Int {
        let clients = try await control.send(["CLIENT", "LIST", "TYPE", "normal"]).string ?? ""
        return clients.split(whereSeparator: \.isNewline).count { client in
            let fields = client.split(separator: " ")
            let isBlocked = fields.contains { $0.hasPrefix("flags=") && $0.contains("b") }
            return isBlocked && fields.contains("name=megaton:wake") && fields.contains("cmd=blpop")
        }
    }

    /// Number of times a leader has read all slots: nothing else in the cluster reads all values of a hash.
    private func looks(_ control: RedisClient) async throws -> Int {
        let name = "cmdstat_hvals:calls="
        let info = try await control.send(["INFO", "commandstats"]).string ?? ""
        let line = info.split(whereSeparator: \.isNewline).first { $0.hasPrefix(name) }
        return line.flatMap { Int($0.dropFirst(name.count).prefix(while: \.isNumber)) } ?? 0
    }

    // MARK: - The judgement

    /// Waits until all jobs are done, and requires that they were done in time, after one request.
    ///
    /// - Parameters:
    ///   - first: time of the first request to the origin.
    ///   - interval: polling interval.
    func judge(
        from first: ContinuousClock.Instant,
        within limit: Duration,
        every interval: Duration,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let took = try await stage.wait(atMost: .seconds(60), every: interval) {
            try await cluster.view.batch(Self.batch)["done"] == jobs
        }
        let all = first.duration(to: stage.clock.now)
        // A waiter that missed the result would send a second request within this time.
        try await stage.clock.sleep(for: .seconds(3))
        result.note("\(workers) processes, \(jobs) jobs: \(requests) GET")
        result.require(requests == 1, "the origin saw \(requests) GETs, not 1")
        guard took != nil else {
            let done = try await cluster.view.batch(Self.batch)["done"]
            result.add(violations: ["only \(done) of \(jobs) jobs were done within a minute"])
            return
        }
        result.note("all done \(Stage.seconds(all)) after the first request reached the origin")
        result.require(all <= limit, "all done only \(Stage.seconds(all)) after the first request")
    }
}
