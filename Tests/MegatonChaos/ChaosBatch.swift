import Foundation
import MegatonCluster
import MegatonTestSupport

/// The jobs of one batch, and the rules for their outcomes.
struct ChaosBatch {
    /// Kinds of batches.
    enum Kind: CaseIterable {
        /// Jobs of the origin that the faults concern, two for each source; a third of the sources is common to all
        /// batches.
        case plain
        /// Jobs of hosts of all kinds, of all priorities, delayed, with idempotency keys, and with ids that occur
        /// twice.
        case mixed
        /// Packs of several hosts.
        case packs
        /// Equal jobs, of which each is to be done once.
        case repeated
    }

    /// The outcome that a job must have.
    enum Rule {
        /// Its host misbehaves at times.
        case any
        /// Its host is healthy.
        case done
        /// Its host never sends an image.
        case failed
    }

    struct Line {
        let source: String
        let rule: Rule
        /// Fields beside the source, as JSON.
        var fields = ""
        /// An id of its own; nil for the one that `megaton submit` makes from the number of the line.
        var id: String?
        /// Exactly one of the jobs with this name is run.
        var group: String?
        /// Milliseconds since 1970 before which it may not begin.
        var notBefore: Int?

        var json: String {
            let named = id.map { #","id":"\#($0)""# } ?? ""
            return #"{"source":"\#(source)"\#(named)\#(fields)}"#
        }
    }

    let name: String
    private(set) var lines: [Line] = []
    /// Options of `megaton submit`.
    private(set) var options: [String] = []

    private static let plainJobs = 240
    private static let plainPaths = 120
    /// Keys that the batches of one kind have in common. Of each only one job is run in the whole run.
    private static let keys = 40
    /// An attempt at a host that hangs costs a place for six seconds, and two of them suffice.
    private static let attemptsAtDeadHosts = 2
    /// A 429 costs an attempt, and without Redis there are no limits that prevent it.
    private static let attemptsAtLimitedHost = 20
    /// A source that kills its process is poison, and so is a job that was running at too many kills. Only the faults
    /// of processes are a reason for a job of a healthy host to fail.
    private static let excused = "poison"

    /// - Parameters:
    ///   - name: must be new.
    ///   - era: changes with the number of shards: another shard does not know a key.
    init(
        _ kind: Kind,
        name: String,
        origin: URL,
        hosts: ChaosHosts,
        dead: ChaosHosts.Dead,
        era: Int,
        random: inout SeededGenerator
    ) {
        self.name = name
        switch kind {
        case .plain: addPlain(origin)
        case .mixed: addMixed(origin, hosts, dead, era, &random)
        case .packs: addPacks(origin, hosts, dead, &random)
        case .repeated: addRepeated(hosts, &random)
        }
    }

    private static func rendition(_ width: Int) -> String {
        #","renditions":[{"name":"w\#(width)","width":\#(width)}]"#
    }

    private mutating func addPlain(_ origin: URL) {
        for number in 0..<Self.plainJobs {
            let path = number % Self.plainPaths
            let source = path % 3 == 0 ? "common-\(path)" : "\(name)-\(path)"
            let url = origin.appendingPathComponent("\(source).png").absoluteString
            lines.append(Line(source: url, rule: .any, fields: Self.rendition(16 + number / Self.plainPaths)))
        }
    }

    /// The jobs of one host.
    private struct HostShare {
        /// Number of single jobs.
        let count: Int
        /// Number of jobs in a batch of packs. A pack may be in a worker with one place, and its sources then run one
        /// after the other: not longer than half a minute.
        let packed: Int
        let rule: Rule
        /// Maximum number of attempts; nil for the usual one.
        var attempts: Int?
        let url: (Int) -> String

        var fields: String { attempts.map { #","attempts":\#($0)"# } ?? "" }
    }

    /// Sources of hosts of all kinds, distinct in the whole run.
    private func sources(
        _ origin: URL,
        _ hosts: ChaosHosts,
        _ dead: ChaosHosts.Dead
    ) -> [HostShare] {
        let name = name
        func path(_ number: Int) -> String { "/\(name)-\(number).png" }
        return [
            HostShare(count: 30, packed: 90, rule: .done) { hosts.fast.url(path($0)).absoluteString },
            HostShare(count: 12, packed: 12, rule: .done) { hosts.slow.url(path($0)).absoluteString },
            HostShare(count: 24, packed: 60, rule: .done, attempts: Self.attemptsAtLimitedHost) {
                hosts.limited.url(path($0)).absoluteString
            },
            HostShare(count: 24, packed: 60, rule: .any) {
                origin.appendingPathComponent("\(name)-\($0).png").absoluteString
            },
            HostShare(count: 6, packed: 6, rule: .failed, attempts: Self.attemptsAtDeadHosts) {
                hosts.failing.url(path($0)).absoluteString
            },
            HostShare(count: 12, packed: 20, rule: .failed, attempts: Self.attemptsAtDeadHosts) {
                dead.refused(path($0))
            },
            HostShare(count: 4, packed: 4, rule: .failed, attempts: Self.attemptsAtDeadHosts) {
                dead.unanswered(path($0))
            },
        ]
    }

    private mutating func addMixed(
        _ origin: URL,
        _ hosts: ChaosHosts,
        _ dead: ChaosHosts.Dead,
        _ era: Int,
        _ random: inout SeededGenerator
    ) {
        options = ["--pack", "0"]
        for share in sources(origin, hosts, dead) {
            for number in 0..<share.count {
                let priority = ["high", "normal", "bulk"][Int.random(in: 0..<3, using: &random)]
                var fields = Self.rendition(20) + #","priority":"\#(priority)""#
                fields += share.fields
                lines.append(Line(source: share.url(number), rule: share.rule, fields: fields))
            }
        }
        for number in 0..<8 {
            let time = Int(Date().timeIntervalSince1970) + Int.random(in: 2...15, using: &random)
            var line = Line(
                source: hosts.fast.url("/\(name)-later-\(number).png").absoluteString,
                rule: .done,
                fields: Self.rendition(21) + #","notBefore":\#(time)"#
            )
            line.notBefore = time * 1000
            lines.append(line)
        }
        for _ in 0..<12 {
            let key = "key-\(era)-\(Int.random(in: 0..<Self.keys, using: &random))"
            let url = hosts.fast.url("/\(key).png").absoluteString
            lines.append(
                Line(source: url, rule: .done, fields: Self.rendition(22) + #","key":"\#(key)""#, group: key)
            )
        }
        for number in 0..<6 {
            let id = "\(name)-twin-\(number / 2)"
            let url = hosts.fast.url("/\(id).png").absoluteString
            lines.append(Line(source: url, rule: .done, fields: Self.rendition(23), id: id, group: id))
        }
        lines.shuffle(using: &random)
    }

    private mutating func addPacks(
        _ origin: URL,
        _ hosts: ChaosHosts,
        _ dead: ChaosHosts.Dead,
        _ random: inout SeededGenerator
    ) {
        options = ["--pack", String([4, 16, 64, 256][Int.random(in: 0..<4, using: &random)])]
        // In the order of the hosts: a pack has neighbors of one host that differ in nothing else.
        for share in sources(origin, hosts, dead) {
            let fields = Self.rendition(24) + share.fields
            lines += (0..<share.packed).map { Line(source: share.url($0), rule: share.rule, fields: fields) }
        }
    }

    private mutating func addRepeated(_ hosts: ChaosHosts, _ random: inout SeededGenerator) {
        options = ["--deduplicate", "--pack", "16"]
        for number in 0..<90 {
            let source = "\(name)-\(number / 3)"
            let host = number / 3 % 5 == 0 ? hosts.slow : hosts.fast
            let url = host.url("/\(source).png").absoluteString
            lines.append(Line(source: url, rule: .done, fields: Self.rendition(25), group: source))
        }
        lines.shuffle(using: &random)
    }

    // MARK: - Outcomes

    /// The id of the line with this number, from 0.
    private func id(_ number: Int) -> String { lines[number].id ?? "\(name).\(number + 1)" }

    /// Ids of delayed jobs, and the times before which they may not begin.
    var delayed: [(id: String, notBefore: Int)] {
        lines.indices.compactMap { number in lines[number].notBefore.map { (id(number), $0) } }
    }

    /// The names of groups, once for each job that was run.
    func groupsRun(_ outcomes: [JobOutcome]) -> [String] {
        let groups = Dictionary(lines.indices.map { (id($0), lines[$0].group) }) { first, _ in first }
        return outcomes.filter { $0.status != .deduplicated }.compactMap { groups[$0.id ?? ""] ?? nil }
    }

    /// Checks that each job has exactly one outcome, and the one that it must have.
    func violations(of outcomes: [JobOutcome]) -> [String] {
        var found: [String] = []
        if outcomes.count != lines.count {
            found.append("I1: batch \(name) has \(outcomes.count) outcomes of \(lines.count)")
        }
        var byID = Dictionary(grouping: outcomes) { $0.id ?? "" }
        // Jobs with one id are equal.
        for (id, numbers) in Dictionary(grouping: lines.indices, by: id) {
            let own = byID.removeValue(forKey: id) ?? []
            if own.count < numbers.count { found.append("I1: \(id) has \(own.count) outcomes, not \(numbers.count)") }
            if own.count > numbers.count { found.append("I2: \(id) has \(own.count) outcomes, not \(numbers.count)") }
            for outcome in own {
                if let text = violation(of: outcome, lines[numbers[0]]) { found.append("\(id): \(text)") }
            }
        }
        for id in byID.keys { found.append("I2: batch \(name) has an outcome of \(id), which it does not have") }
        return found
    }

    private func violation(of outcome: JobOutcome, _ line: Line) -> String? {
        if outcome.source != line.source { return "its outcome is of \(outcome.source)" }
        switch outcome.status {
        case .deduplicated: return line.group == nil ? "it is a duplicate of none" : nil
        case .cancelled: return "it was cancelled"
        case .done: return line.rule == .failed ? "it is done, although its host sends no image" : nil
        case .failed:
            guard line.rule == .done, outcome.error?.code != Self.excused else { return nil }
            return
                "it failed, although its host is healthy: \(outcome.error?.code ?? ""), \(outcome.error?.message ?? "")"
        }
    }
}
