internal import Foundation
internal import MegatonPipeline
public import MegatonRedis

extension JobQueue {
    /// Makes jobs ready whose lease has run out.
    ///
    /// - Parameters:
    ///   - leads: sweeps in any case, and so often that no worker has to.
    ///   - dead: names of workers whose processes have ended: their leases end too, and the sweep is made in any case.
    /// - Returns: how many; nil if another process did it a moment ago.
    @discardableResult
    func sweep(leads: Bool = false, dead: [String] = []) async throws(RedisError) -> Int? {
        let gate = leads ? Self.leadersGate : Self.sweepGate
        let reply = try await redis.run(
            QueueScripts.sweep,
            keys: [keys.lease, keys.meta] + keys.ready + [
                keys.wake, keys.sweepGate, keys.stat, keys.workers, keys.workerInfo, keys.crashes, keys.suspects,
                keys.isolating,
            ],
            arguments: [
                .int(Self.sweptAtOnce), .int(gate.wholeMilliseconds), .int(Self.workerSilence),
                leads || !dead.isEmpty ? "1" : "0", .int(Self.suspicion.wholeMilliseconds),
            ] + dead.map { .string($0) }
        )
        guard let swept = reply.int else { throw Self.unexpected("sweep") }
        return swept < 0 ? nil : swept
    }

    /// Sweeps where neither a leader nor anybody else has done so a moment ago: with a leader it is one cheap look.
    ///
    /// - Parameter interval: between two sweeps of this worker, where it is the only one.
    /// - Returns: how many, and how soon to look again.
    func sweepInTurn(every interval: Duration) async throws(RedisError) -> (swept: Int, pause: Duration) {
        let left = try await redis.send(["PTTL", .string(keys.sweepGate)]).int ?? 0
        // Not all of a large fleet at once, and soon after it opens: the leader may have died.
        let look = max(Self.shortestLook, .milliseconds(left) * Double.random(in: 0.8...1))
        if left > 0 { return (0, min(interval, look)) }
        let swept = try await sweep()
        return (swept ?? 0, swept == nil ? interval / 2 : interval)
    }

    /// How often the leader sweeps.
    static let leadersSweep: Duration = .milliseconds(250)
    /// Less than a second from the last sweep of a leader that dies to the first one in its place.
    private static let leadersGate: Duration = .milliseconds(900)
    private static let shortestLook: Duration = .milliseconds(20)
    private static let sweptAtOnce = 1000
    /// Less than half of the second at which each worker tries: several workers together sweep twice a second.
    private static let sweepGate: Duration = .milliseconds(450)
    /// A worker that has not renewed for so long is no longer shown, ms.
    private static let workerSilence = 60_000
    /// How long after its last death a source is suspected, or quarantined.
    static let suspicion: Duration = .seconds(24 * 3600)

    /// Whether a process had registered as a worker, and what the queue had done by then.
    public struct Obituary: Sendable {
        /// False if the process ended before it could work.
        public let hadRegistered: Bool
        /// Jobs that have ended since the queue was made: if it does not grow, processes die in vain.
        public let ended: Int
    }

    /// Reports that the process of a worker has ended: its jobs need not wait until their leases run out.
    ///
    /// - Parameters:
    ///   - pid: of the process.
    ///   - host: of the process, as the name of the worker has it.
    @discardableResult
    public func report(deathOf pid: Int32, on host: String) async throws(RedisError) -> Obituary {
        let workers = (try await redis.send(["ZRANGE", .string(keys.workers), "0", "-1"]).array ?? [])
            .compactMap(\.string).filter { $0.hasPrefix("\(host):\(pid):") }
        if !workers.isEmpty { try await sweep(dead: workers) }
        let counts = try await redis.send(["HMGET", .string(keys.stat), "done", "failed", "cancelled"]).array ?? []
        return Obituary(hadRegistered: !workers.isEmpty, ended: counts.reduce(0) { $0 + ($1.int ?? 0) })
    }

    /// Reports workers of a process space whose processes are gone: what a worker does that starts, as it may be the
    /// successor of one that died.
    ///
    /// - Returns: how many.
    @discardableResult
    func reportDead(in space: String, isGone: (Int32) -> Bool) async throws(RedisError) -> Int {
        let infos = try await redis.send(["HGETALL", .string(keys.workerInfo)]).dictionary
        let dead = infos.filter { _, text in
            guard let info = WorkerInfo(stored: text), info.space == space else { return false }
            return isGone(Int32(truncatingIfNeeded: info.pid))
        }
        if !dead.isEmpty { try await sweep(dead: dead.keys.sorted()) }
        return dead.count
    }

    /// Forgets the deaths that sources are suspected of, so that jobs which name them run again.
    public func forgetDeaths(of jobs: [Job]) async throws(RedisError) {
        let digests = Set(jobs.map(\.sourceDigest)).sorted()
        if digests.isEmpty { return }
        try await redis.send(RedisCommand(["ZREM", .string(keys.crashes)] + digests.map { .string($0) }))
    }
}
