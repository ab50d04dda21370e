import Foundation
import MegatonCluster

/// Checks the histories of all processes: no job was counted twice, and each request to an origin was necessary.
struct HistoryChecker {
    /// An attempt at a job.
    private struct Attempt: Hashable {
        let id: String
        let number: Int
    }

    /// A flight of one key.
    private struct Flight: Hashable {
        let key: String
        let token: Int
    }

    private(set) var claims = 0
    /// Number of claims of each job.
    private(set) var claimsByJob: [String: Int] = [:]
    /// Time of the first claim of each job, milliseconds since 1970 by this machine's clock.
    private(set) var firstClaim: [String: Int] = [:]
    private(set) var fetches = 0
    /// Completions that were refused as too late.
    private(set) var refused = 0
    /// Lines truncated by a kill: at most one for each process.
    private(set) var torn = 0
    /// Flights of originals that never landed: their leaders died, hung or lost the cache.
    private(set) var expired = 0
    /// Originals loaded without a lock: the cache was unreachable, or its entry was damaged.
    private(set) var unlocked = 0
    /// Flights of originals that ended without an entry.
    private(set) var failed = 0
    /// Flights of originals that ended with an entry.
    private(set) var landed = 0
    private var accepted: [Attempt: Int] = [:]
    private var ends: [String: Int] = [:]
    private var open: Set<Flight> = []
    private var landedByKey: [String: Int] = [:]

    /// Reads all histories of a directory.
    init(_ directory: String) throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
        try self.init(names.map { "\(directory)/\($0)" })
    }

    /// Reads these histories.
    init(_ files: [String]) throws {
        for file in files {
            let data = try Data(contentsOf: URL(fileURLWithPath: file))
            for line in data.split(separator: 10) {
                guard let event = try? JSONDecoder().decode(HistoryEvent.self, from: Data(line)) else {
                    torn += 1
                    continue
                }
                add(event)
            }
        }
        expired = open.count
    }

    private mutating func add(_ event: HistoryEvent) {
        switch event.kind {
        case .claim:
            claims += 1
            if let id = event.id {
                claimsByJob[id, default: 0] += 1
                firstClaim[id] = min(firstClaim[id] ?? .max, event.at)
            }
        case .fetch: fetches += 1
        case .settle:
            guard let id = event.id, let number = event.attempt, let result = event.result else { return }
            guard result.hasSuffix("/ok") else {
                refused += 1
                return
            }
            // A pack is settled in several calls of one attempt; the ledgers show that none of its sources ends twice.
            if result.hasPrefix("pack/") { return }
            accepted[Attempt(id: id, number: number), default: 0] += 1
            let isEnd = ["done", "failed", "cancelled"].contains { result.hasPrefix($0) }
            if isEnd { ends[id, default: 0] += 1 }
        case .lead:
            guard let key = event.key, key.hasPrefix("o") else { return }
            guard let token = event.token else {
                unlocked += 1
                return
            }
            open.insert(Flight(key: key, token: token))
        case .land:
            guard let key = event.key, key.hasPrefix("o"), let token = event.token else { return }
            open.remove(Flight(key: key, token: token))
            if event.result == "ok" {
                landed += 1
                landedByKey[key, default: 0] += 1
            } else if event.result == "skipped" {
                // Not stored, as nothing else needed it: it may be loaded once more.
                landed += 1
            } else {
                failed += 1
            }
        }
    }

    /// No attempt has two accepted completions, and no job has two.
    var violations: [String] {
        accepted.filter { $0.value > 1 }.map {
            "attempt \($0.key.number) of \($0.key.id) has \($0.value) accepted ends"
        }
            + ends.filter { $0.value > 1 }.map { "\($0.key) has ended \($0.value) times" }
    }

    /// Originals that were loaded again after a flight had landed: evicted, lost or expired.
    var madeAgain: Int { landedByKey.values.reduce(0) { $0 + $1 - 1 } }
    /// Their keys.
    var keysMadeAgain: [String] { landedByKey.filter { $0.value > 1 }.keys.sorted() }
}
