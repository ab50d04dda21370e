import Foundation
import MegatonCommandLine

/// The work of a run, before it is done: the object that `megaton plan --json` prints.
struct Plan: Codable, Sendable {
    /// The state of an output that a run would make.
    enum Category: String, Sendable {
        /// There is no file.
        case new
        /// The file is the one that the run would make, as far as that is known without a fetch.
        case kept
        /// The run would make another file.
        case replaced
        /// An input of the run is in its place, and the job would fail.
        case blocked
        /// Its path is known when it is made, or it stays in the cache, or it is an object, which is not looked at.
        case unknown
        /// Only an earlier run has made the file.
        case orphaned
        /// An orphan that is not as the earlier run has made it, so that it would stay.
        case changed
    }

    /// Why an output would be replaced.
    enum Reason: String, Sendable {
        /// The file is not in the earlier ledger, or is another one.
        case file
        /// The source is another one, or has changed.
        case source
        /// The options of the rendition are others.
        case options
        /// `--force`, or `"reload": true` of the job.
        case force
        /// `--refresh`, or `"refresh": true` of the job: if the origin has another original.
        case refresh

        var words: String {
            switch self {
            case .file: "the file is not that of the ledger"
            case .source: "the source has changed"
            case .options: "the options have changed"
            case .force: "everything is made anew"
            case .refresh: "the origin is asked, and may have changed"
            }
        }
    }

    /// Cost of the work, by the figures of the last ledger.
    struct Estimate: Codable, Sendable {
        /// Number of lines from which the figures come.
        var lines = 0
        /// Bytes of the new and replaced outputs; nil if the ledger has no outputs.
        var outputBytes: Int?
        /// Bytes of the sources that are fetched or read; nil if their sizes are unknown.
        var sourceBytes: Int?
        /// Processor seconds of the renders; nil if the last run rendered nothing.
        var renderSeconds: Double?
        /// Sum of the seconds of all fetches, which run beside each other; nil if the last run fetched nothing.
        var fetchSeconds: Double?
    }

    var jobs = 0
    /// Each job with a preset that only the coordinator knows counts as one.
    var outputs = 0
    /// Outputs that an earlier job of the plan makes too, which the other numbers leave out.
    var repeated = 0
    /// Jobs with a preset that only the coordinator knows.
    var presets = 0
    /// Outputs whose path has a file now.
    var existing = 0
    /// Lines that are not jobs, or are refused, and files whose names are not UTF-8.
    var invalid = 0
    /// Inputs that `--exclude` leaves out; a directory counts once.
    var excluded = 0
    /// Files of directories and buckets whose extensions are not those of images.
    var skipped = 0
    var new = 0
    var kept = 0
    var replaced = 0
    /// The replaced outputs by their reasons.
    var replacedBecause: [String: Int] = [:]
    var blocked = 0
    var unknown = 0
    /// Sources of new and replaced outputs that are on the network.
    var sourcesToFetch = 0
    /// Those that are files, or `data:` URLs.
    var sourcesToRead = 0
    /// New and replaced outputs.
    var renders = 0
    /// Nil if it is not known which outputs are orphaned.
    var orphaned: Int?
    var orphanedBytes: Int?
    var changed: Int?
    /// Path of the ledger with which the outputs were compared; nil if there is none.
    var ledger: String?
    /// Nil without an earlier ledger.
    var estimate: Estimate?
    /// Nil if the outputs are no shards.
    var shards: Shards?

    mutating func count(_ category: Category, _ reason: Reason?) {
        switch category {
        case .new: new += 1
        case .kept: kept += 1
        case .replaced:
            replaced += 1
            if let reason { replacedBecause[reason.rawValue, default: 0] += 1 }
        case .blocked: blocked += 1
        case .unknown: unknown += 1
        case .orphaned: orphaned = (orphaned ?? 0) + 1
        case .changed: changed = (changed ?? 0) + 1
        }
    }

    /// The plan in sentences.
    ///
    /// - Parameters:
    ///   - output: the output directory; nil if there is none.
    ///   - areObjects: whether the outputs are objects of a store.
    func lines(_ output: String?, areObjects: Bool = false) -> [String] {
        if let shards { return self.lines(shards, output) }
        let place = output.map { " beneath \(TextColumns.oneLine($0))" } ?? ""
        let least = presets > 0 ? "at least " : ""
        var lines = ["\(Counted.jobs(jobs)), \(least)\(Counted.of(outputs, "output"))\(place)"]
        // All of them are unknown, unless jobs of a list have files as their outputs.
        if !areObjects || new > 0 { lines.append(row("new", new) + ", where no file is yet") }
        if !areObjects || kept > 0 { lines.append(row("kept", kept)) }
        let reasons = [Reason.source, .options, .file, .force, .refresh].compactMap { reason in
            replacedBecause[reason.rawValue].map { "\($0) as \(reason.words)" }
        }
        if !areObjects || replaced > 0 {
            lines.append(row("replaced", replaced) + (reasons.isEmpty ? "" : ": " + reasons.joined(separator: ", ")))
        }
        if repeated > 0 { lines.append(row("repeated", repeated) + ": an earlier job makes each of them too") }
        if blocked > 0 { lines.append(row("blocked", blocked) + ": a file that must stay is in its place") }
        if unknown > 0 {
            let reason =
                areObjects ? "objects of the store are not looked at" : "their paths are known when they are made"
            lines.append(row("unknown", unknown) + ": \(reason)")
        }
        lines.append(workLine)
        lines.append(orphanLine(areObjects: areObjects))
        lines.append(estimateLine)
        return lines
    }

    /// Whether outputs are unknown, and no other is to be made.
    var hasUnknownWork: Bool { renders == 0 && unknown > 0 }

    var workLine: String {
        if hasUnknownWork {
            return "  \("work".padded) not known: up to \(Counted.of(unknown, "output")) to be rendered"
        }
        let more = unknown > 0 ? "; up to \(unknown) more, which are unknown" : ""
        return row("work", renders) + " to be rendered, from sources of which \(sourcesToFetch) to be fetched, "
            + "\(sourcesToRead) to be read\(more)"
    }

    var estimateLine: String { "  \("estimate".padded) " + (estimate?.text ?? noEstimate) }

    func row(_ name: String, _ count: Int) -> String { "  \(name.padded) \(Counted.of(count, "output"))" }

    private var noEstimate: String {
        if hasUnknownWork { return "none, as all outputs are unknown" }
        return ledger == nil ? "no earlier ledger, no estimate" : "the earlier ledger has no finished job, no estimate"
    }

    private func orphanLine(areObjects: Bool) -> String {
        guard let orphaned else {
            if areObjects { return "  \("orphaned".padded) not known, as objects of the store are not looked at" }
            let isEmpty = jobs == 0 && invalid == 0
            if isEmpty && ledger == nil { return "  \("orphaned".padded) none" }
            let reason =
                ledger == nil
                ? "no earlier ledger is compared"
                : isEmpty ? "no image was found in the inputs" : "the names of all outputs are not known"
            return "  \("orphaned".padded) not known, as \(reason)"
        }
        let rest = changed ?? 0
        let fate = rest == 1 ? "was changed since, and stays" : "were changed since, and stay"
        let others = rest > 0 ? "; \(rest) more \(fate)" : ""
        if orphaned == 0 { return "  \("orphaned".padded) none\(others)" }
        return "  \("orphaned".padded) \(Counted.files(orphaned)) (\(Counted.bytes(orphanedBytes ?? 0))) that only an "
            + "earlier run has made; run --delete-orphans deletes them\(others)"
    }
}

extension Plan.Estimate {
    var text: String {
        var parts: [String] = []
        if let outputBytes { parts.append("\(Counted.bytes(outputBytes)) of outputs") }
        if let sourceBytes { parts.append("\(Counted.bytes(sourceBytes)) of sources") }
        if let renderSeconds { parts.append("\(Self.time(renderSeconds)) of CPU time") }
        if let fetchSeconds { parts.append("\(Self.time(fetchSeconds)) of fetches") }
        let known = parts.isEmpty ? "no sizes" : parts.joined(separator: ", ")
        // A run replaces the ledger, so that the figures of the run before it are gone.
        let unknown = renderSeconds == nil ? "; CPU time unknown, as the last run took its outputs from the cache" : ""
        return "\(known), by \(Counted.lines(lines)) of the last ledger\(unknown)"
    }

    private static func time(_ seconds: Double) -> String {
        seconds < 10 ? String(format: "%.1f s", seconds) : BatchProgress.time(seconds)
    }
}

extension String {
    /// The text with spaces up to the width of the categories.
    var padded: String { padding(toLength: 9, withPad: " ", startingAt: 0) }
}
