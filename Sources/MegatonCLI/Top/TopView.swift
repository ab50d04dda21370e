import Foundation
import MegatonCluster
import MegatonCommandLine

/// The text of `megaton top`, which is fitted to the columns of a window.
struct TopView: Sendable {
    let queue: String
    var snapshot: TopSnapshot
    /// The interval and the keys, on a terminal.
    var hint: String?
    /// Why the last reading failed, so that older numbers are shown.
    var fault: String?

    /// A list, of which a part is shown if there is no room for all.
    private struct Section {
        let title: String
        let heading: String
        /// Number of entries, also of those that have no row.
        let count: Int
        let rows: [String]
    }

    /// A list may have this many rows if nothing limits the height.
    static let listRows = 20
    /// Columns of a text that nothing limits.
    private static let defaultWidth = 79
    /// Columns beside the first one of a list.
    private static let otherColumns = 38
    /// Columns of the first one of a list.
    private static let nameColumns = 12...72
    /// Columns of a number in the rows of rates and states, with the space in front of the next one.
    private static let cell = 10

    private var status: ClusterStatus { snapshot.reading.status }

    /// All lines, for a reader that is no terminal.
    var text: String { lines().map(TextColumns.oneLine).joined(separator: "\n") }

    /// - Parameters:
    ///   - height: number of lines; nil for as many as are needed.
    ///   - width: number of columns; nil for 79.
    func lines(height: Int? = nil, width: Int? = nil) -> [String] {
        let width = width ?? Self.defaultWidth
        let name = min(max(width - Self.otherColumns, Self.nameColumns.lowerBound), Self.nameColumns.upperBound)
        let warnings = self.warnings.flatMap { TextColumns.wrapped("! " + TextColumns.oneLine($0), width, indent: 2) }
        let top = heading + warnings + [""] + rates(width) + [""] + states(width)
        let sections = self.sections(name).filter { $0.count > 0 }
        // Each section has an empty line and its heading.
        let room = height.map { max(0, $0 - top.count - 2 * sections.count) } ?? Int.max
        let shares = Self.shares(of: room, among: sections.map { min($0.rows.count, Self.listRows) })
        let lists = zip(sections, shares).flatMap { section, share -> [String] in
            let part = share < section.count ? "\(share) of \(section.count)" : "\(section.count)"
            return ["", Self.left("\(section.title) (\(part))", name) + section.heading] + section.rows.prefix(share)
        }
        return top + lists
    }

    /// Divides rows among lists: one for each in turn, until all are shown or no row is left.
    static func shares(of room: Int, among counts: [Int]) -> [Int] {
        var (shares, left) = (counts.map { _ in 0 }, room)
        while left > 0 {
            let open = counts.indices.filter { shares[$0] < counts[$0] }
            if open.isEmpty { break }
            for index in open.prefix(left) { shares[index] += 1 }
            left -= min(left, open.count)
        }
        return shares
    }

    // MARK: - The state

    private var heading: [String] {
        let silent = status.workers.count - status.livingWorkers.count
        let workers = Counted.of(status.workers.count, "worker") + (silent > 0 ? " (\(silent) silent)" : "")
        let coordinators = Counted.of(status.coordinators.count, "coordinator")
        return [
            "queue \(queue)" + (hint.map { "   \($0)" } ?? ""),
            "\(workers), \(coordinators), leader \(status.leader ?? "none")",
        ]
    }

    private var warnings: [String] { (fault.map { [$0] } ?? []) + snapshot.warnings }

    private func rates(_ width: Int) -> [String] {
        let names = ["done/s", "failed/s", "retries/s", "fetches/s", "renders/s", "hits", "in/s", "out/s"]
        func number(_ value: Double?) -> String { value.map { String(format: "%.1f", $0) } ?? "-" }
        // Another program may have written a number that no integer can hold.
        func bytes(_ value: Double?) -> String { value.map { Counted.bytes(Int(min($0, 1e18))) } ?? "-" }
        let rates = snapshot.rates
        let ratio = rates?.cache.hitRatio.map { String(format: "%.1f %%", $0 * 100) }
        let values = [
            number(rates?.done), number(rates?.failed), number(rates?.retried), number(rates?.cache.originFetches),
            number(rates?.cache.renders), ratio ?? "-", bytes(rates?.cache.bytesIn), bytes(rates?.cache.bytesOut),
        ]
        return Self.rows(names, values, width)
    }

    private func states(_ width: Int) -> [String] {
        let jobs = [
            ("intake", status.intake), ("staged", status.staged), ("ready", status.ready),
            ("running", status.running), ("delayed", status.delayed), ("held", status.held), ("dead", status.dead),
        ]
        let ready = snapshot.reading.ready
        let priorities = Job.Priority.allCases.map { priority in
            let age = ready.ages[priority].map { " (oldest \(BatchProgress.time($0)))" } ?? ""
            return "\(priority.rawValue) \(ready.counts[priority] ?? 0)\(age)"
        }
        let ended =
            "\(status.done) done, \(status.failed) failed, \(status.cancelled) cancelled, \(status.retried) retried, "
            + "\(status.stalled) stalled"
        let lines = ["ready: \(priorities.joined(separator: ", "))", "ended: \(ended)"]
        return Self.rows(jobs.map(\.0), jobs.map { "\($0.1)" }, width)
            + lines.flatMap { TextColumns.wrapped($0, width, indent: 2) }
    }

    // MARK: - The lists

    /// - Parameter name: number of columns of the first column.
    private func sections(_ name: Int) -> [Section] {
        let reading = snapshot.reading
        // Those that are silent say most, then those that are busy.
        func rank(_ worker: ClusterStatus.Worker) -> Int { worker.isLiving ? worker.running : .max }
        let workers = status.workers.sorted { (rank($1), $1.silent, $0.name) < (rank($0), $0.silent, $1.name) }
        let restricted = reading.restricted.sorted { ($1.failures, $0.name) < ($0.failures, $1.name) }
        return [
            Section(
                title: "last failures",
                heading: "error                batch",
                count: reading.failures.isEmpty ? 0 : status.dead,
                rows: reading.failures.map { letter in
                    Self.left(letter.shownSource ?? letter.id, name) + Self.left(letter.content.code, 21)
                        + TextColumns.fitted(TextColumns.oneLine(letter.batch ?? ""), 17)
                }
            ),
            Section(
                title: "restricted hosts",
                heading: "  failures  state",
                count: restricted.count,
                rows: restricted.prefix(Self.listRows).map { host in
                    Self.left(host.name, name) + Self.right("\(host.failures)", 10) + "  \(Self.state(of: host))"
                }
            ),
            Section(
                title: "hosts",
                heading: " fetches/s   fetches",
                count: snapshot.hosts.count,
                rows: snapshot.hosts.prefix(Self.listRows).map { host in
                    let rate = host.fetchesPerSecond.map { String(format: "%.1f", $0) } ?? "-"
                    return Self.left(host.host.isEmpty ? "(no host)" : host.host, name) + Self.right(rate, 10)
                        + Self.right("\(host.fetches)", 10)
                }
            ),
            Section(
                title: "workers",
                heading: "   running heartbeat  version",
                count: workers.count,
                rows: workers.prefix(Self.listRows).map { worker in
                    Self.left(worker.name, name) + Self.right("\(worker.running)", 10)
                        + Self.right("\(Int(min(worker.silent, 1e9))) s ago", 10)
                        + "  \(TextColumns.fitted(TextColumns.oneLine(worker.version ?? ""), 16))"
                }
            ),
        ]
    }

    private static func state(of host: HostState) -> String {
        if host.isProbed { return "circuit open, probed" }
        if host.isOpen { return "circuit open, \(BatchProgress.time(host.openFor))" }
        if host.blockedFor > 0 { return "pauses for \(BatchProgress.time(host.blockedFor))" }
        return String(format: "%.0f %% of its limits", host.factor * 100)
    }

    // MARK: - Columns

    /// Rows of names, each with the values below it: as many in a row as the window has room for.
    private static func rows(_ names: [String], _ values: [String], _ width: Int) -> [String] {
        let perRow = max(1, (width + 1) / cell)
        return stride(from: 0, to: names.count, by: perRow).flatMap { first in
            [names, values].map { row(Array($0.dropFirst(first).prefix(perRow))) }
        }
    }

    /// Cells of equal width, which are aligned at the right.
    private static func row(_ cells: [String]) -> String { cells.map { right($0, cell - 1) }.joined(separator: " ") }

    private static func left(_ text: String, _ width: Int) -> String {
        let cell = TextColumns.fitted(TextColumns.oneLine(text), width - 1)
        return cell + String(repeating: " ", count: max(1, width - TextColumns.count(cell)))
    }

    private static func right(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - TextColumns.count(text))) + text
    }
}
