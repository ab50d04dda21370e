import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport

/// No. 19: a control Redis that hangs for 3 s, once silently and once with BUSY errors, costs time but no lease.
struct SlowRedis: Scenario {
    static let name = "slow-redis"
    static let summary = "DEBUG SLEEP 3, then a script that runs for 3 s: no lease is lost, p99 is back a second later"

    /// An interval in milliseconds since 1970.
    private typealias Interval = Range<Double>

    private static let batch = "slow"
    /// Time before, between and after the two hangs.
    private static let calm: Duration = .seconds(10)
    private static let hang: Duration = .seconds(3)
    /// Milliseconds after the start, and after each hang, that may be slow.
    private static let settling: Double = 1000
    /// Milliseconds before a hang: jobs due then may still be running when it starts.
    private static let margin: Double = 100
    /// Milliseconds; replaced by twice the p99 before the hangs if that is more.
    private static let limit: Double = 100
    /// Writes nothing, so that SCRIPT KILL can end it.
    private static let endless = "#!lua flags=no-writes\nwhile true do end"

    func run(_ stage: Stage) async throws -> ScenarioResult {
        var options = SmallCluster.Options()
        options.control += ["enable-debug-command local", "busy-reply-threshold 200"]
        return try await SmallCluster.run(stage, options) { cluster, result in
            let image = TestImage.quarters(width: 32, height: 32)
            let origin = try await OriginServer.start { _ in .image(image) }
            defer { origin.stop() }
            try await cluster.start(workers: 2, stage)
            let pusher = try stage.client(cluster.fleet.options.control)
            defer { pusher.close() }
            let source = origin.url("/one.png").absoluteString
            try await warmUp(pusher, source, cluster, stage)
            let load = SteadyLoad(pusher, source: source, batch: Self.batch)
            let hangs = try await push(load, cluster.fleet.options.control, stage, &result)
            let ended = try await stage.wait(atMost: .seconds(30)) {
                try await cluster.view.batch(Self.batch)["done"] == load.pushed
            }
            result.require(ended != nil, "not all jobs were done")
            try await count(load, cluster, &result)
            // Counters of leases and the last lines of the histories are complete when the workers have ended.
            result.add(violations: await cluster.endFleet())
            try await leases(cluster, &result)
            try latencies(load, hangs, cluster, &result)
        }
    }

    // MARK: - The load and the hangs

    /// The first job fetches and renders; all others find its results in the cache and cost next to nothing.
    private func warmUp(_ pusher: RedisClient, _ source: String, _ cluster: SmallCluster, _ stage: Stage) async throws {
        try await SteadyLoad(pusher, source: source, batch: "warm").push(0..<1)
        try await stage.reach("the first job done", within: .seconds(30)) { try await cluster.view.done() == 1 }
    }

    /// - Returns: the intervals in which Redis hung.
    private func push(
        _ load: SteadyLoad,
        _ control: String,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws -> [Interval] {
        async let pushing: Void = load.run()
        try await stage.clock.sleep(for: Self.calm)
        let silent = try await hangSilently(control, stage)
        try await stage.clock.sleep(for: Self.calm)
        result.require(load.refused == 0, "Redis was busy before it was to be")
        let busy = try await hangBusy(control, stage, &result)
        try await stage.clock.sleep(for: Self.calm)
        load.stop()
        try await pushing
        result.note("\(load.pushed) jobs pushed; \(load.refused) pushes were refused as Redis was busy, and repeated")
        result.require(load.refused > 0, "no push was refused because Redis was busy: that proves nothing")
        return [silent, busy]
    }

    /// Redis does not answer any client.
    private func hangSilently(_ control: String, _ stage: Stage) async throws -> Interval {
        let redis = try stage.client(control, timeout: .seconds(20))
        defer { redis.close() }
        try await redis.connect()
        let start = SteadyLoad.now
        try await redis.send(["DEBUG", "SLEEP", .int(Int(Self.hang.components.seconds))])
        return start..<SteadyLoad.now
    }

    /// Redis answers all clients that it is busy.
    private func hangBusy(_ control: String, _ stage: Stage, _ result: inout ScenarioResult) async throws -> Interval {
        let (blocked, killer) = (try stage.client(control, timeout: .seconds(20)), try stage.client(control))
        defer {
            blocked.close()
            killer.close()
        }
        // Connect now: while Redis is busy, the handshake fails.
        try await blocked.connect()
        try await killer.connect()
        let start = SteadyLoad.now
        async let isKilled = Self.isKilled(blocked)
        try await stage.clock.sleep(for: Self.hang)
        try await killer.send(["SCRIPT", "KILL"])
        result.require(try await isKilled, "the script ended by itself")
        return start..<SteadyLoad.now
    }

    /// Runs a script that never ends.
    private static func isKilled(_ redis: RedisClient) async throws -> Bool {
        do throws(RedisError) {
            try await redis.send(["EVAL", .string(endless), "0"])
            return false
        } catch {
            guard error.code == .server, error.message.contains("SCRIPT KILL") else { throw error }
            return true
        }
    }

    // MARK: - The judgement

    private func count(_ load: SteadyLoad, _ cluster: SmallCluster, _ result: inout ScenarioResult) async throws {
        result.requireDone(load.pushed, of: Self.batch, try await cluster.view.batch(Self.batch))
        result.add(violations: try await cluster.view.misplaced())
    }

    private func leases(_ cluster: SmallCluster, _ result: inout ScenarioResult) async throws {
        let leases = try await cluster.view.leases()
        result.note(leases.text)
        result.require(leases.areZero, "leases were lost")
    }

    private func latencies(
        _ load: SteadyLoad,
        _ hangs: [Interval],
        _ cluster: SmallCluster,
        _ result: inout ScenarioResult
    ) throws {
        result.add(violations: try HistoryChecker(cluster.fleet.histories).violations)
        let ends = try Self.ends(cluster.fleet.histories)
        let jobs = (0..<load.pushed).compactMap { number in
            ends[load.id(number)].map { (due: load.due(number), took: $0 - load.due(number)) }
        }
        result.require(jobs.count == load.pushed, "the histories have \(jobs.count) ends of \(load.pushed) jobs")
        func those(dueFrom start: Double, until end: Double) -> Latencies {
            Latencies(jobs.filter { $0.due >= start && $0.due < end }.map { $0.took })
        }
        let calm = those(dueFrom: load.start + Self.settling, until: hangs[0].lowerBound - Self.margin)
        result.note("calm, \(calm.text)")
        result.require(calm.count > 0, "no job ended in the calm before: that proves nothing")
        let limit = max(Self.limit, 2 * calm.percentile(0.99))
        for (index, (name, hang)) in zip(["DEBUG SLEEP", "BUSY"], hangs).enumerated() {
            let next = index + 1 < hangs.count ? hangs[index + 1].lowerBound - Self.margin : .infinity
            let settled = hang.upperBound + Self.settling
            let seconds = String(format: "%.1f", (hang.upperBound - hang.lowerBound) / 1000)
            let during = those(dueFrom: hang.lowerBound - Self.margin, until: hang.upperBound)
            let settling = those(dueFrom: hang.upperBound, until: settled)
            let after = those(dueFrom: settled, until: next)
            result.note("\(name) for \(seconds) s, \(during.text)")
            result.note("\(name), the second after it, \(settling.text)")
            result.note("\(name), from a second after it on, \(after.text)")
            result.require(
                after.count > 0 && after.percentile(0.99) <= limit,
                String(format: "\(name): p99 was not below %.0f ms a second after it", limit)
            )
        }
    }

    /// Times at which Redis had confirmed the completions of jobs, in milliseconds since 1970 by this machine's clock.
    private static func ends(_ directory: String) throws -> [String: Double] {
        var ends: [String: Double] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
            let data = try Data(contentsOf: URL(fileURLWithPath: "\(directory)/\(name)"))
            for line in data.split(separator: 10) {
                let event = try JSONDecoder().decode(HistoryEvent.self, from: Data(line))
                if event.kind == .settle, event.result == "done/ok", let id = event.id { ends[id] = Double(event.at) }
            }
        }
        return ends
    }
}
