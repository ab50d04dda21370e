internal import Foundation
internal import MegatonPipeline
package import MegatonRedis

extension JobQueue {
    /// Makes jobs ready again whose lease has run out, and ends the leases of dead workers.
    ///
    /// Each swept job has one more stall and goes first. If two processes have died of its source, it waits in
    /// `suspects` instead, for a process of its own; `JobHandler.isPoison` decides when it fails.
    ///
    /// - Parameters:
    ///   - leads: whether the caller is the leader, which always sweeps, and so often that no worker has to.
    ///   - dead: names of workers whose processes have ended. Their leases end too, and the sweep is always made.
    /// - Returns: number of swept jobs; nil if another process swept a moment ago.
    @discardableResult
    func sweep(leads: Bool = false, dead: [String] = []) async throws(RedisError) -> Int? {
        if dead.count <= Self.namedAtOnce { return try await sweepOnce(leads: leads, dead: dead).swept }
        var swept = 0
        for first in stride(from: 0, to: dead.count, by: Self.namedAtOnce) {
            let names = Array(dead[first..<min(first + Self.namedAtOnce, dead.count)])
            swept += try await sweepOnce(leads: leads, dead: names).swept ?? 0
        }
        return swept
    }

    /// Sweeps as the leader.
    ///
    /// - Returns: number of swept jobs, and the pause before the next sweep, which makes the next job ready in time, or
    ///   sweeps the leases that one call has left.
    func sweepAsLeader() async throws(RedisError) -> (swept: Int, pause: Duration) {
        let (swept, next) = try await sweepOnce(leads: true, dead: [])
        return (swept ?? 0, min(max(next ?? Self.leadersSweep, Self.shortestPause), Self.leadersSweep))
    }

    /// - Returns: number of swept jobs, as of `sweep`, and the time until the next delayed job is due or the next host
    ///   has its turn; nil if there is none, zero if expired leases may be left.
    private func sweepOnce(
        leads: Bool,
        dead: [String]
    ) async throws(RedisError) -> (swept: Int?, next: Duration?) {
        let gate = leads ? Self.leadersGate : Self.sweepGate
        let reply = try await redis.run(
            QueueScripts.sweep,
            keys: [keys.lease, keys.meta] + keys.ready + [
                keys.wake, keys.sweepGate, keys.stat, keys.workers, keys.workerInfo, keys.crashes, keys.suspects,
                keys.isolating, keys.delay, keys.holding, keys.held, keys.pace, keys.heldBytes, keys.body, keys.places,
                keys.givenUp, keys.control,
            ],
            arguments: [
                .int(Self.sweptAtOnce), .int(gate.wholeMilliseconds), .int(Self.workerSilence),
                leads || !dead.isEmpty ? "1" : "0", .int(Self.suspicion.wholeMilliseconds),
            ] + dead.map { .string($0) }
        )
        guard let numbers = reply.array?.compactMap(\.int), numbers.count == 2 else { throw Self.unexpected("sweep") }
        return (numbers[0] < 0 ? nil : numbers[0], numbers[1] < 0 ? nil : .milliseconds(numbers[1]))
    }

    /// Sweeps unless the leader or another worker has done so a moment ago. While there is a leader, it costs one cheap
    /// command.
    ///
    /// - Parameter interval: time between two sweeps of this worker if it is the only one.
    /// - Returns: number of swept jobs, the pause before the next call, and whether another process has swept a moment
    ///   ago: then the pause is that of a small fleet.
    func sweepInTurn(
        every interval: Duration
    ) async throws(RedisError) -> (swept: Int, pause: Duration, isIdle: Bool) {
        let left = try await redis.send(["PTTL", .string(keys.sweepGate)]).int ?? 0
        // With jitter, so that a large fleet does not look all at once; soon after the gate opens, as the leader may
        // have died.
        let pause = max(Self.shortestPause, .milliseconds(left) * Double.random(in: 0.8...1))
        if left > 0 { return (0, min(interval, pause), true) }
        let swept = try await sweep()
        // One that has swept goes on as often, however large the fleet is: no time without sweeps follows.
        return (swept ?? 0, swept == nil ? interval / 2 : interval, false)
    }

    /// Longest interval between the leader's sweeps.
    static let leadersSweep: Duration = .milliseconds(250)
    /// Gate after a leader's sweep: if the leader dies, another process sweeps less than a second after its last sweep.
    private static let leadersGate: Duration = .milliseconds(900)
    private static let shortestPause: Duration = .milliseconds(20)
    /// Number of swept jobs after which a call begins with no other dead worker.
    static let sweptAtOnce = 1000
    /// Maximum number of dead workers that one call names: all of their jobs are swept, up to 1,024 of each.
    private static let namedAtOnce = 8
    /// Gate after a worker's sweep: less than half of the second at which each worker tries, so that several workers
    /// together sweep twice a second.
    private static let sweepGate: Duration = .milliseconds(450)
    /// A worker that has not renewed for this many ms is no longer shown.
    private static let workerSilence = 60_000
    /// How long a source is suspected, or quarantined, after its last death.
    static let suspicion: Duration = .seconds(24 * 3600)

    /// Whether an ended process had registered as a worker, and how many jobs had ended by then.
    package struct WorkerExit: Sendable {
        /// False if the process ended before it could work.
        package let hadRegistered: Bool
        /// Jobs that have ended since the queue was created: if the number does not grow, processes die without
        /// progress.
        package let ended: Int
    }

    /// Reports that a worker's process has ended, so that its jobs need not wait until their leases run out.
    ///
    /// - Parameters:
    ///   - pid: id of the process.
    ///   - host: host of the process, as in the worker's name.
    @discardableResult
    package func report(deathOf pid: Int32, on host: String) async throws(RedisError) -> WorkerExit {
        try await report(deathOf: pid, on: host, in: ProcessSpace.current)
    }

    /// - Parameter space: the space of the process id. Containers may share the name of their host, and each has ids of
    ///   its own.
    func report(deathOf pid: Int32, on host: String, in space: String?) async throws(RedisError) -> WorkerExit {
        var workers = (try await redis.send(["ZRANGE", .string(keys.workers), "0", "-1"]).array ?? [])
            .compactMap(\.string).filter { $0.hasPrefix("\(host):\(pid):") }
        if let space, !workers.isEmpty {
            let names = workers.map { RedisArgument.string($0) }
            let infos = try await redis.send(RedisCommand(["HMGET", .string(keys.workerInfo)] + names)).array ?? []
            workers = zip(workers, infos).filter { _, info in
                // A worker of an older version, or one without a description, has no space.
                info.string.flatMap(WorkerInfo.init(stored:))?.space.map { $0 == space } ?? true
            }.map(\.0)
        }
        if !workers.isEmpty { try await sweep(dead: workers) }
        let counts = try await redis.send(["HMGET", .string(keys.stat), "done", "failed", "cancelled"]).array ?? []
        return WorkerExit(hadRegistered: !workers.isEmpty, ended: counts.reduce(0) { $0 + ($1.int ?? 0) })
    }

    /// Reports workers of a process space whose processes are gone. A starting worker calls this, as it may be the
    /// successor of a worker that died.
    ///
    /// - Returns: number of dead workers.
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

    /// Forgets the process deaths that the sources of these jobs are suspected of, so that jobs with these sources run
    /// again.
    package func forgetDeaths(of jobs: [Job]) async throws(RedisError) {
        let digests = Set(jobs.map(\.sourceDigest)).sorted()
        if digests.isEmpty { return }
        try await redis.send(RedisCommand(["ZREM", .string(keys.crashes)] + digests.map { .string($0) }))
    }
}
