import Foundation
import Logging
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import NIOPosix

/// Leads flights that others wait for, and measures how soon they go on.
struct LockBenchmark: Sendable {
    let address: RedisConfiguration
    /// Of the same Redis, for the processes that wait.
    let url: String
    let waiters: Int
    let processes: Int
    let rounds: Int

    /// Rounds that are not counted: a process that has just begun may not be listening yet.
    private static let uncounted = 3
    /// Bytes of the entry: a thumbnail's.
    private static let entrySize = 16 * 1024
    /// How long the entry is kept, seconds.
    private static let lifetime: Double = 60

    func run() async throws -> LockReport {
        let name = Identity.batch("bench")
        let arguments = (0..<processes).map { process in
            let share = waiters * (process + 1) / processes - waiters * process / processes
            return ["lock-waiters", "--name", name, "--process", String(process), "--waiters", String(share)]
        }
        return try await BenchProcesses(arguments: arguments, environment: ["MEGATON_REDIS": url]).run {
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
            owner: Identity.process(),
            group: group,
            logger: logger
        )
        let link = LockRounds(name: name, redis: lists)
        var report = LockReport.Histograms()
        var (counted, round) = (0, 0)
        while counted < rounds {
            let (start, wakes) = try await play(round, lock, link)
            round += 1
            guard round > Self.uncounted else { continue }
            if let spoilt = spoilt(wakes, start) {
                if round - counted > Self.uncounted + rounds { throw Failure.broken(spoilt) }
                continue
            }
            report.add(wakes, since: start)
            counted += 1
        }
        return LockReport(waiters: waiters, processes: processes, rounds: rounds, report)
    }

    /// - Returns: when Redis was told of the flight's end, and when the waiters went on.
    private func play(
        _ round: Int,
        _ lock: InFlightLock,
        _ link: LockRounds
    ) async throws -> (start: Int, LockRounds.Wakes) {
        guard case .lead(let lead)? = await lock.begin([link.key(round)]).first, lead.token != nil else {
            throw Failure.unavailable("the cache Redis did not give the lead of a new flight.")
        }
        try await link.begin(round, processes: processes)
        let entry = CachedData(
            data: Data(repeating: UInt8(truncatingIfNeeded: round), count: Self.entrySize),
            metadata: .init(lifetime: Self.lifetime)
        )
        let start = BenchJob.now()
        let stored = await lock.finish([(lead, entry)])
        let wakes = try await link.wakes(processes: processes)
        guard stored.contains(link.key(round)) else {
            throw Failure.unavailable("the cache Redis did not keep the flight's entry.")
        }
        return (start, wakes)
    }

    /// Who has subscribed anew goes on at once, to look whether it has missed something; who has waited for long looks by
    /// itself. Neither was woken by the flight's end, and a round with one of them is played again.
    ///
    /// - Returns: what was wrong with a round, if something was.
    private func spoilt(_ wakes: LockRounds.Wakes, _ start: Int) -> String? {
        if wakes.woken.count < waiters || wakes.served.count < waiters {
            return "of \(waiters) waiters \(wakes.woken.count) were woken, and \(wakes.served.count) had the entry."
        }
        guard let first = wakes.woken.min(), first < start else { return nil }
        return "a waiter went on before the flight had ended: so many gather too slowly here."
    }
}
