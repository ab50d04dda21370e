import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Summary of a ledger for a page that people look at: totals, causes of failures, hosts, the
/// slowest jobs, and the outputs.
///
/// Takes one outcome at a time and remembers a bounded part of each, so that a ledger may have millions of lines.
struct LedgerReport {
    /// Outcomes of the jobs of one host.
    struct Host: Encodable, Equatable {
        var name: String
        var done = 0
        var failed = 0
        var seconds = 0.0
        /// Numbers of failures by the codes of their errors.
        var causes: [String: Int] = [:]
    }

    /// A job that took long.
    struct SlowJob: Encodable, Equatable {
        var source: String
        var seconds: Double
        /// Seconds by stage; nil if the ledger does not have them.
        var times: JobOutcome.Times?
    }

    /// A failed job, or an output of one that is done.
    struct Item: Encodable, Equatable {
        /// The source, at most ``LedgerReport/shownSource`` characters.
        var source: String
        /// The output from the page's directory, as a URL; nil for a failure, and for an output without a file.
        var image: String?
        /// Placeholder of the source in Base64, if the output has no file: it is in a shard, a store or the cache.
        var thumbHash: String?
        /// Pixels.
        var width: Int?
        var height: Int?
        var bytes: Int?
        /// Bytes of its source; nil if the ledger does not have them.
        var sourceBytes: Int?
        /// The rendition's name.
        var name: String?
        /// Code of the error.
        var code: String?
        var message: String?
    }

    /// Numbers of all jobs.
    struct Totals: Encodable, Equatable {
        var jobs = 0
        var done = 0
        var failed = 0
        var cancelled = 0
        var deduplicated = 0
        /// Of these, duplicates of jobs that have failed.
        var failedDuplicates = 0
        var outputs = 0
        /// Bytes of all outputs.
        var bytes = 0
        /// Bytes of the sources, as far as the ledger has them.
        var sourceBytes = 0
        var rendered = 0
        /// Seconds of all attempts that ended a job, by stage.
        var waiting = 0.0
        var fetching = 0.0
        var rendering = 0.0
        var storing = 0.0
        /// Jobs that are done although their image is damaged.
        var damaged = 0
        /// Lines that are not outcomes.
        var unreadable = 0
    }

    private(set) var totals = Totals()
    private(set) var items: [Item] = []
    /// Failures and outputs that are not in `items`.
    private(set) var omitted = 0
    private(set) var slowest: [SlowJob] = []
    private var hosts: [String: Host] = [:]
    private var causes = FailureCauses()
    /// Directory of the page, with a slash at its end.
    private let directory: String
    /// Directory of the ledger, with a slash at its end; nil before one is read.
    private var home: String?
    /// Directory that the ledger had when it was written, with a slash at its end; nil unless an output shows that both
    /// were moved.
    private var formerHome: String?
    /// Number of outputs that were looked for in vain.
    private var missing = 0

    /// Maximum number of outputs and failures on the page.
    static let maximumItems = 100_000
    private static let shownSlowest = 20
    private static let shownHosts = 50
    /// Hosts that are counted apart; later ones are counted together.
    private static let maximumHosts = 10_000
    /// Codes of errors that are counted apart for each host, and their maximum length.
    private static let (maximumCodes, shownCode) = (20, 40)
    private static let shownSource = 300
    private static let shownMessage = 500
    /// Outputs that are looked for in vain before no further one is looked for.
    private static let maximumMissing = 1000
    /// Maximum size of a placeholder, bytes: a ledger may have any.
    private static let maximumHash = 25

    /// - Parameter directory: directory of the page, absolute: images beneath it are named relative to it, so that it
    ///   can be moved with them.
    init(directory: String) {
        self.directory = Self.withSlash(directory)
    }

    private static func withSlash(_ path: String) -> String { path.hasSuffix("/") ? path : path + "/" }

    /// Reads a ledger, a regular file. Blocks.
    ///
    /// - Throws: `CLIError` if the ledger cannot be read.
    mutating func read(_ ledger: String) throws {
        home = Self.withSlash(URL(fileURLWithPath: ledger).deletingLastPathComponent().path)
        let empty = self
        // Most ledgers have one line for each job. Others are read twice more.
        var jobs = Set<UInt64>()
        let isRead = try read(ledger) { _, outcome in
            guard let outcome else { return nil }
            guard let job = LastLines.key(outcome) else { return true }
            if jobs.contains(job) { return nil }
            if jobs.count < LastLines.limit { jobs.insert(job) }
            return true
        }
        if isRead { return }
        self = empty
        let lines = try LastLines(of: ledger)
        _ = try read(ledger) { number, outcome in outcome.map { lines.isLast(number, $0) } ?? false }
    }

    /// - Parameter counts: whether an outcome counts; nil ends the reading. It has the number of the line, from 1, and
    ///   no outcome if the line is none.
    /// - Returns: whether the whole ledger was read.
    private mutating func read(_ ledger: String, counts: (Int, JobOutcome?) -> Bool?) throws -> Bool {
        var reader = try InputReader.lines(of: ledger)
        var number = 0
        while let line = try reader.nextLine() {
            number += 1
            if line.isEmpty { continue }
            let outcome = try? JobOutcome(json: Data(line.utf8))
            guard let isCounted = counts(number, outcome) else { return false }
            if let outcome, isCounted { add(outcome) }
            if outcome == nil { totals.unreadable += 1 }
        }
        return true
    }

    mutating func add(_ outcome: JobOutcome) {
        totals.jobs += 1
        switch outcome.status {
        case .done: totals.done += 1
        case .failed: totals.failed += 1
        case .cancelled: totals.cancelled += 1
        case .deduplicated: totals.deduplicated += 1
        }
        // Its outputs and times are those of the job of which it is a duplicate, and so is its error.
        if outcome.status == .deduplicated {
            guard JobOutcome.isFailedDuplicate(outcome.status, code: outcome.error?.code), let error = outcome.error
            else { return }
            totals.failedDuplicates += 1
            causes.add(error, source: outcome.source)
            return
        }
        if outcome.status == .done, RenderNotes.nameDamage(outcome.notes) { totals.damaged += 1 }
        count(outcome)
        let source = String(outcome.source.prefix(Self.shownSource))
        if let error = outcome.error {
            causes.add(error, source: outcome.source)
            append(Item(source: source, code: error.code, message: String(error.message.prefix(Self.shownMessage))))
        }
        let placeholder = outcome.facts?.thumbHash.flatMap { hash in
            hash.count <= Self.maximumHash ? hash.base64EncodedString() : nil
        }
        for output in outcome.outputs {
            totals.outputs += 1
            totals.bytes.add(bounded: output.bytes)
            if output.from == .render { totals.rendered += 1 }
            let image = items.count < Self.maximumItems ? link(to: output) : nil
            append(
                Item(
                    source: source,
                    image: image,
                    thumbHash: image == nil ? placeholder : nil,
                    width: output.width,
                    height: output.height,
                    bytes: output.bytes,
                    sourceBytes: outcome.facts?.bytes,
                    name: output.name
                )
            )
        }
    }

    private mutating func count(_ outcome: JobOutcome) {
        totals.sourceBytes.add(bounded: outcome.facts?.bytes ?? 0)
        if let times = outcome.times {
            totals.waiting.add(bounded: times.waiting)
            totals.fetching.add(bounded: times.fetching)
            totals.rendering.add(bounded: times.rendering)
            totals.storing.add(bounded: times.storing)
        }
        noteIfSlow(outcome)
        guard outcome.status == .done || outcome.status == .failed else { return }
        var name = OutputTemplate.isDataURL(outcome.source) ? "data" : URL(string: outcome.source)?.host() ?? "files"
        if hosts[name] == nil && hosts.count >= Self.maximumHosts { name = "other hosts" }
        hosts[name, default: Host(name: name)].seconds.add(bounded: outcome.seconds)
        if outcome.status == .done {
            hosts[name]?.done += 1
        } else {
            hosts[name]?.failed += 1
            note(outcome.error?.code ?? "unknown", of: name)
        }
    }

    /// Counts a failure of a host by its code. A ledger may have any text as one.
    private mutating func note(_ code: String, of host: String) {
        guard let causes = hosts[host]?.causes else { return }
        let code = String(code.prefix(Self.shownCode))
        let isApart = causes[code] != nil || causes.count < Self.maximumCodes
        hosts[host]?.causes[isApart ? code : "others", default: 0] += 1
    }

    private mutating func noteIfSlow(_ outcome: JobOutcome) {
        guard slowest.count < Self.shownSlowest || outcome.seconds > slowest.last?.seconds ?? 0 else { return }
        let job = SlowJob(
            source: String(outcome.source.prefix(Self.shownSource)),
            seconds: outcome.seconds,
            times: outcome.times
        )
        let place = slowest.firstIndex { $0.seconds < outcome.seconds } ?? slowest.count
        slowest.insert(job, at: place)
        if slowest.count > Self.shownSlowest { slowest.removeLast() }
    }

    private mutating func append(_ item: Item) {
        if items.count < Self.maximumItems { items.append(item) } else { omitted += 1 }
    }

    /// The URL of an output from the page; nil if it is no file. A ledger may have any text as a path.
    private mutating func link(to output: JobOutcome.Output) -> String? {
        guard let path = output.path, path.hasPrefix("/") else { return nil }
        let current = moved(path, bytes: output.bytes) ?? path
        if current.hasPrefix(directory) { return FileNames.encoded("./" + current.dropFirst(directory.count)) }
        return FileNames.fileURL(current)
    }

    /// The path of an output that was moved together with the ledger; nil if it is where the ledger says, or unknown.
    private mutating func moved(_ path: String, bytes: Int) -> String? {
        guard let home, !path.hasPrefix(home) else { return nil }
        if let formerHome, path.hasPrefix(formerHome) { return home + path.dropFirst(formerHome.count) }
        guard missing < Self.maximumMissing, Self.size(of: path) == nil else { return nil }
        // The longest end of the path comes first: a short one may be the name of another file.
        var rest = path.dropFirst()
        while true {
            if Self.size(of: home + rest) == bytes {
                formerHome = String(path.dropLast(rest.count))
                return home + rest
            }
            guard let slash = rest.firstIndex(of: "/") else { break }
            rest = rest[rest.index(after: slash)...]
        }
        missing += 1
        return nil
    }

    /// Bytes of a file; nil if there is none.
    private static func size(of path: String) -> Int? {
        var info = stat()
        guard stat(path, &info) == 0, info.st_mode & S_IFMT == S_IFREG else { return nil }
        return Int(info.st_size)
    }

    /// The hosts with the most failures, and of these with the most jobs, first.
    var topHosts: [Host] {
        let sorted = hosts.values.sorted {
            ($0.failed, $0.done, $1.name) > ($1.failed, $1.done, $0.name)
        }
        return Array(sorted.prefix(Self.shownHosts))
    }

    /// Number of the other hosts.
    var otherHosts: Int { max(0, hosts.count - Self.shownHosts) }

    /// The causes of failures, the most frequent first.
    var topCauses: [FailureCauses.Row] { causes.top }

    /// Number of failures of other causes.
    var otherFailures: Int { causes.rest }
}

extension Int {
    /// Adds a number of a ledger, which may have any: the largest sum is kept.
    fileprivate mutating func add(bounded other: Int) {
        let (sum, isOverflow) = addingReportingOverflow(other)
        self = isOverflow ? (other < 0 ? .min : .max) : sum
    }
}

extension Double {
    /// Adds a number of a ledger. JSON has no infinity.
    fileprivate mutating func add(bounded other: Double) {
        self = Swift.min(Swift.max(self + other, -Self.largest), Self.largest)
    }

    /// More seconds than any ledger has.
    private static let largest = 1e15
}
