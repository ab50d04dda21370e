import Foundation
import Logging
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import NIOPosix

/// Pushes jobs that do nothing, has them worked off by worker processes, and measures.
struct QueueBenchmark: Sendable {
    let address: RedisConfiguration
    let jobs: Int
    let workers: Int
    let bytes: Int
    let rate: Int?
    let seconds: Int

    private static let pushedAtOnce = 500
    private static let keys = QueueKeys()
    /// A backlog that has not been worked off by then never will be.
    private static let patience: Duration = .seconds(600)

    func run() async throws -> QueueReport {
        let group = MultiThreadedEventLoopGroup.singleton
        let logger = LogOptions.logger("megaton.bench", level: .error)
        let redis = RedisClient(address, role: "bench", group: group, logger: logger)
        defer { redis.close() }
        let empty = try await usedMemory(redis)
        for first in stride(from: 0, to: jobs, by: Self.pushedAtOnce) {
            try await push(first..<min(jobs, first + Self.pushedAtOnce), redis)
        }
        let perJob = Double(try await usedMemory(redis) - empty) / Double(jobs)
        let start = ContinuousClock.now
        _ = try await withCluster { try await wait(until: jobs, redis) }
        let speed = Double(jobs) / start.duration(to: .now).inSeconds
        let steady = rate ?? max(1, Int(speed / 4))
        let latencies = try await withCluster { try await pushSteadily(steady, redis) }
        return QueueReport(
            jobs: jobs,
            workers: workers,
            bytesPerWaitingJob: perJob,
            jobsPerSecond: speed,
            steadyRate: steady,
            p50Milliseconds: latencies.percentile(0.5) ?? 0,
            p99Milliseconds: latencies.percentile(0.99) ?? 0
        )
    }

    /// A coordinator in this process and the workers in theirs, for as long as the body runs.
    private func withCluster(_ body: @escaping @Sendable () async throws -> Void) async throws -> LatencyHistogram {
        guard let program = CommandLineProgram.path else {
            throw Failure.unavailable("the program's own path is not known: /proc is not mounted?")
        }
        let logs = try TemporaryDirectory()
        defer { logs.remove() }
        let coordinator = Coordinator(
            .init(),
            redis: address,
            group: MultiThreadedEventLoopGroup.singleton,
            name: Identity.process(),
            logger: LogOptions.logger("megaton.coordinator", level: .error)
        )
        try await coordinator.start()
        let outputs = (0..<workers).map { "\(logs.path)/\($0)" }
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                await coordinator.run()
                return false
            }
            for output in outputs {
                let child = ChildProcess(
                    command: [program, "bench", "queue-worker"],
                    environment: ["MEGATON_REDIS": address.description],
                    log: output
                )
                group.addTask {
                    let ending = try await child.run()
                    if !Task.isCancelled { throw Failure.unavailable("a worker ended (\(ending)).") }
                    return false
                }
            }
            group.addTask {
                try await body()
                return true
            }
            while let isOver = try await group.next(), !isOver {}
            group.cancelAll()
        }
        var all = LatencyHistogram()
        for output in outputs {
            let text = try String(contentsOfFile: output, encoding: .utf8)
            all.merge(try JSONDecoder().decode(LatencyHistogram.self, from: Data(text.utf8)))
        }
        return all
    }

    private func push(_ range: Range<Int>, _ redis: RedisClient) async throws {
        let jobs = range.map { RedisArgument.string(BenchJob.json($0, bytes: bytes)) }
        try await redis.send(RedisCommand(["LPUSH", .string(Self.keys.jobs)] + jobs))
    }

    /// Pushes a hundred times a second what the rate asks for.
    private func pushSteadily(_ rate: Int, _ redis: RedisClient) async throws {
        let clock = ContinuousClock()
        let (start, before) = (clock.now, try await done(redis))
        var pushed = 0
        for tick in 1...(seconds * 100) {
            try await clock.sleep(until: start + .milliseconds(10 * tick))
            let due = rate * tick / 100
            if due > pushed { try await push(pushed..<due, redis) }
            pushed = due
        }
        try await wait(until: before + pushed, redis)
    }

    private func wait(until count: Int, _ redis: RedisClient) async throws {
        let deadline = ContinuousClock.now + Self.patience
        while try await done(redis) < count {
            if ContinuousClock.now > deadline { throw Failure.unavailable("the backlog was not worked off.") }
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    private func done(_ redis: RedisClient) async throws -> Int {
        try await redis.send(["HGET", .string(Self.keys.stat), "done"]).int ?? 0
    }

    private func usedMemory(_ redis: RedisClient) async throws -> Int {
        let info = try await redis.send(["INFO", "memory"]).string ?? ""
        let line = info.split(whereSeparator: \.isNewline).first { $0.hasPrefix("used_memory:") }
        return line.flatMap { Int($0.dropFirst("used_memory:".count)) } ?? 0
    }
}
