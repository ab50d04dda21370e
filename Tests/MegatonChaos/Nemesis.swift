import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// Injects faults into a cluster, one after the other, and undoes each.
struct Nemesis {
    let cluster: ChaosCluster
    let stage: Stage
    private(set) var counts: [Fault: Int] = [:]
    /// Time from each kill until the dead worker held no lease any more.
    private(set) var recoveries: [Duration] = []
    private(set) var complaints: [String] = []
    /// Number of times the cache lost everything or was under memory pressure.
    private(set) var cacheLosses = 0
    /// Number of processes that found no Redis at their start and were restarted.
    private(set) var startedAgain = 0
    private var random: SeededGenerator

    init(_ cluster: ChaosCluster, stage: Stage, seed: UInt64) {
        self.cluster = cluster
        self.stage = stage
        random = SeededGenerator(seed: seed)
    }

    /// Injects one fault, and ends it.
    mutating func strike() async throws {
        guard let fault = Fault.allCases.randomElement(using: &random) else { return }
        counts[fault, default: 0] += 1
        cluster.faults.begin(fault)
        defer { cluster.faults.end() }
        switch fault {
        case .killWorker, .killWorkers, .stopWorker, .drainWorker: try await workers(fault)
        case .suspectsWorker: try await addSuspectsWorker()
        case .killCoordinator, .stopCoordinator: try await coordinators(fault)
        case .restartControl, .restartCache, .flushScripts, .slowRedis, .fullControl, .fullCache:
            try await servers(fault)
        case .slowOrigin, .failingOrigin, .brokenOrigin: try await origins(fault)
        default: try await network(fault)
        }
        try await pause(0.5...2)
        startedAgain += try cluster.fleet.supervise()
    }

    private mutating func pause(_ seconds: ClosedRange<Double>) async throws {
        try await stage.clock.sleep(for: .seconds(Double.random(in: seconds, using: &random)))
    }

    // MARK: - Processes

    private mutating func workers(_ fault: Fault) async throws {
        let victims = cluster.fleet.workers.shuffled(using: &random)
            .prefix(fault == .killWorkers ? cluster.fleet.workers.count / 2 : 1)
        switch fault {
        case .stopWorker:
            for victim in victims { victim.process.send(SIGSTOP) }
            try await stage.clock.sleep(for: .seconds(ChaosCluster.lease + 3))
            for victim in victims { victim.process.send(SIGCONT) }
        case .drainWorker:
            for victim in victims {
                victim.process.send(SIGTERM)
                let code = await Fleet.ending(of: victim.process, within: .seconds(15))
                if code != 0 {
                    complaints.append("a worker that was drained ended with \(code.map(String.init) ?? "no")")
                }
                try cluster.fleet.restart(victim)
            }
        default:
            let pids = victims.map(\.process.pid)
            for victim in victims { victim.process.send(SIGKILL) }
            let start = stage.clock.now
            for victim in victims {
                _ = await victim.process.ending()
                try cluster.fleet.restart(victim)
            }
            let took = try await stage.wait(atMost: .seconds(60)) { try await !holds(pids) }
            if took == nil {
                complaints.append("the leases of a killed worker did not come back within 60 s")
            } else {
                recoveries.append(start.duration(to: stage.clock.now))
            }
        }
    }

    /// Whether any of these workers holds a lease.
    private func holds(_ pids: [Int32]) async throws -> Bool {
        for view in cluster.views {
            for pid in pids where !(try await view.held(by: pid)).isEmpty { return true }
        }
        return false
    }

    /// Starts one more process for suspects beside those that the workers start. It ends when it finds none.
    private mutating func addSuspectsWorker() async throws {
        let process = try cluster.fleet.launchSuspectsWorker()
        let code = await Fleet.ending(of: process, within: .seconds(40))
        if code != 0 {
            complaints.append(
                "a worker that takes only suspects ended with \(code.map(String.init) ?? "no"): "
                    + "\(process.errors.suffix(300))"
            )
        }
    }

    private mutating func coordinators(_ fault: Fault) async throws {
        let index = Int.random(in: 0..<ChaosCluster.coordinators, using: &random)
        let victim = cluster.fleet.coordinators[index]
        if fault == .stopCoordinator {
            victim.send(SIGSTOP)
            try await stage.clock.sleep(for: .seconds(12))
            victim.send(SIGCONT)
        } else {
            victim.send(SIGKILL)
            _ = await victim.ending()
            try await pause(0...4)
            try cluster.fleet.restartCoordinator(index)
        }
    }

    // MARK: - Servers

    private mutating func servers(_ fault: Fault) async throws {
        switch fault {
        case .restartControl:
            await cluster.control.kill()
            try await pause(0.5...8)
            try cluster.control.start()
            _ = try await stage.wait(atMost: .seconds(20)) { try await cluster.client.send(["PING"]).string == "PONG" }
        case .restartCache:
            cacheLosses += 1
            await cluster.cache.kill()
            try await pause(0.5...5)
            try cluster.cache.start()
        case .flushScripts:
            try await cluster.client.send(["SCRIPT", "FLUSH"])
            try await cluster.client.send(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
        case .slowRedis:
            try await cluster.client.send(["DEBUG", "SLEEP", "3"], timeout: .seconds(10))
        case .fullControl:
            try await cluster.client.send(["CONFIG", "SET", "maxmemory", "1"])
            try await pause(2...6)
            try await cluster.client.send(["CONFIG", "SET", "maxmemory", "0"])
        default:
            cacheLosses += 1
            let cache = try stage.client(cluster.cache.url)
            defer { cache.close() }
            try await cache.send(["CONFIG", "SET", "maxmemory", "2mb"])
            try await pause(3...8)
            try await cache.send(["CONFIG", "SET", "maxmemory", "64mb"])
        }
    }

    // MARK: - Network and origin

    private mutating func network(_ fault: Fault) async throws {
        let (control, cache) = (cluster.controlProxy, cluster.cacheProxy)
        switch fault {
        case .cutControl: control.cut()
        case .cutCache: cache.cut()
        case .tearControl: control.cut(afterBytes: Int.random(in: 1...2000, using: &random))
        case .halfOpenControl:
            control.halfOpen()
            try await pause(1...4)
            control.endGhosts()
        case .blackHoleControl:
            control.blackHole(true)
            try await pause(4...18)
            control.blackHole(false)
        case .blackHoleCache:
            cache.blackHole(true)
            try await pause(4...12)
            cache.blackHole(false)
        case .slowControl:
            control.setLatency(.milliseconds(50))
            try await pause(3...8)
            control.setLatency(.zero)
        default:
            cache.setBandwidth(bytesPerSecond: 1_000_000)
            try await pause(3...8)
            cache.setBandwidth(bytesPerSecond: nil)
        }
    }

    private mutating func origins(_ fault: Fault) async throws {
        cluster.origin.set(fault == .slowOrigin ? .slow : fault == .failingOrigin ? .failing : .broken)
        try await pause(2...5)
        cluster.origin.set(.good)
    }
}
