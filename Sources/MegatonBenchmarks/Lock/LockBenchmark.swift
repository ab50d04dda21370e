import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import MegatonRedis
import NIOPosix

/// Leads flights that have waiters, and measures how soon the waiters continue.
struct LockBenchmark: Sendable {
    let address: RedisConfiguration
    /// URL of the same Redis, for the waiting processes.
    let url: String
    let waiters: Int
    let processes: Int
    let rounds: Int

    /// Number of warm-up rounds: a process that has just started may not be subscribed yet.
    private static let uncounted = 3
    /// Size of the entry, bytes: that of a thumbnail.
    private static let entrySize = 16 * 1024
    /// Time to live of the entry, seconds.
    private static let lifetime: Double = 60

    func run() async throws -> LockReport {
        let name = ProcessIdentity.batch("bench")
        let arguments = (0..<processes).map { process in
            let share = waiters * (process + 1) / processes - waiters * process / processes
            return ["lock-waiters", "--name", name, "--process", String(process), "--waiters", String(share)]
        }
        return try await BenchmarkProcesses(arguments: arguments, environment: ["MEGATON_REDIS": url]).run {
            try await lead(name)
        }.0
    }

    private func lead(_ name: String) async throws -> LockReport {
        let (group, logger) = (
            MultiThreadedEventLoopGroup.singleton, LogOptions.logger("megaton.bench", level: .error)
        )
        let cache = RedisClient(address, role: "cache", group: group, logger: logger)
        let lists = RedisClient(address, role: "bench", group: group, logger: logger)
        defer {
            cache.close()
            lists.close()
        }
        let lock = InFlightLock(
            cache: RedisDataCache(redis: cache, logger: logger),
            owner: ProcessIdentity.process(),
            group: group,
            logger: logger
        )
        let link = LockRounds(name: name, redis: lists)
        var report = LockReport.Histograms()
        var (counted, round) = (0, 0)
        while counted < rounds {
            let (start, wakes) = try await playRound(round, lock, link)
            round += 1
            guard round > Self.uncounted else { continue }
            if let fault = fault(of: wakes, start) {
                if round - counted > Self.uncounted + rounds { throw CLIError.broken(fault) }
                continue
            }
            report.add(wakes, since: start)
            counted += 1
        }
        return LockReport(waiters: waiters, processes: processes, rounds: rounds, report)
    }

    /// - Returns: the time at which the end of the flight was sent to Redis, and the times at which the waiters
    ///   continued.
    private func playRound(
        _ round: Int,
        _ lock: InFlightLock,
        _ link: LockRounds
    ) async throws -> (start: Int, LockRounds.Wakes) {
        guard case .lead(let lead)? = await lock.begin([link.key(round)]).first, lead.token != nil else {
            throw CLIError.unavailable("the cache Redis did not grant the lead of a new flight.")
        }
        try await link.begin(round, processes: processes)
        let entry = CachedData(
            data: Data(repeating: UInt8(truncatingIfNeeded: round), count: Self.entrySize),
            metadata: .init(lifetime: Self.lifetime)
        )
        let start = NoOpJob.now()
        let stored = await lock.finish([(lead, entry)])
        let wakes = try await link.wakes(processes: processes)
        guard stored.contains(link.key(round)) else {
            throw CLIError.unavailable("the cache Redis did not store the entry of the flight.")
        }
        return (start, wakes)
    }

    /// Checks a round. A waiter that has just resubscribed continues at once, to look for a missed message, and a
    /// waiter that has slept for long looks by itself. Neither was woken by the end of the flight, and such a round is
    /// repeated.
    ///
    /// - Returns: the fault of the round; nil if it counts.
    private func fault(of wakes: LockRounds.Wakes, _ start: Int) -> String? {
        if wakes.woken.count < waiters || wakes.served.count < waiters {
            return "\(wakes.woken.count) of \(waiters) waiters continued, and \(wakes.served.count) had the entry."
        }
        guard let first = wakes.woken.min(), first < start else { return nil }
        return "a waiter continued before the flight had ended: this machine is too slow for so many waiters."
    }
}
