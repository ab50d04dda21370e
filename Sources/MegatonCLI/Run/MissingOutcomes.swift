import Foundation
import MegatonCluster
import MegatonCommandLine

/// Ids of the jobs of a batch, in the order of their submission, to name those whose outcomes Redis has lost.
///
/// Kept as one text: an id that this program made takes the digits of its number.
struct SubmittedIDs: Sendable {
    private let prefix: String
    private var text: [UInt8] = []

    /// Maximum number of bytes of the text; later ids are left out, and cannot be named.
    private static let limit = 64 * 1024 * 1024
    /// Stands for the prefix of the ids that this program made; no id contains it.
    private static let mark: UInt8 = 1

    init(batch: String) { prefix = "\(batch)." }

    /// - Parameter ids: nil for a line that is not a job.
    mutating func add(_ ids: [String?]) {
        for id in ids {
            guard let id, text.count + id.utf8.count < Self.limit else { continue }
            if id.hasPrefix(prefix) {
                text.append(Self.mark)
                text += id.utf8.dropFirst(prefix.utf8.count)
            } else {
                text += id.utf8
            }
            text.append(10)
        }
    }

    /// The ids, in order.
    var all: some Sequence<String> {
        text.lazy.split(separator: 10).map { id in
            id.first == Self.mark
                ? prefix + String(decoding: id.dropFirst(), as: UTF8.self) : String(decoding: id, as: UTF8.self)
        }
    }
}

/// Jobs of an ended batch whose outcomes its reader did not get.
struct MissingOutcomes: Sendable, Equatable {
    let count: Int
    /// How many of them were deleted before they were read; Redis has lost the others.
    let deleted: Int
    /// The first ids, as far as known.
    let ids: [String]

    /// Maximum number of ids that are named.
    private static let named = 20

    /// Nil if none is missing.
    init?(_ count: Int, _ counters: BatchCounters, _ submitted: SubmittedIDs, _ history: OutcomeHistories?) {
        guard count > 0 else { return nil }
        self.count = count
        deleted = min(counters["results_dropped"] + (history?.deleted ?? 0), count)
        // More than are missing may seem to be: their names would be wrong.
        let ids = history?.ids(missingFrom: submitted.all, limit: max(count, Self.named) + 1) ?? []
        self.ids = ids.count <= count ? Array(ids.prefix(Self.named)) : []
    }

    func report(_ repetition: RepeatAdvice) {
        var reasons: [String] = []
        if deleted > 0 {
            reasons.append(
                "\(deleted) came faster than they were read, did not fit into Redis, or were taken by another program"
            )
        }
        if deleted < count {
            reasons.append(
                "Redis has lost \(count - deleted), as a replica that lagged took over or it restarted from an older "
                    + "file"
            )
        }
        var text =
            "megaton: \(Counted.of(count, "outcome")) \(count == 1 ? "is" : "are") missing: "
            + "\(reasons.joined(separator: "; ")). The jobs may have run. "
        if !ids.isEmpty {
            let rest = count - ids.count
            text += "Missing: \(ids.joined(separator: ", "))\(rest > 0 ? " and \(rest) more" : ""). "
        }
        let advice =
            repetition.makesAll
            ? repetition.clause : "\(repetition.command()) makes what is missing: finished work is in the cache"
        Terminal.error(text + RepeatAdvice.sentence(advice))
    }
}

/// Outcomes of a batch that its reader did not get, if the reader did not submit the jobs and knows only their number.
struct OutcomeGaps: Sendable, Equatable {
    /// How many were deleted before they were read.
    let deleted: Int
    /// How many others an ended batch lacks, at least: of the jobs that were cancelled, a part has no outcome.
    let lost: Int

    /// - Parameters:
    ///   - deleted: number of outcomes that Redis has reported as deleted to the reader.
    ///   - skipped: number of outcomes that the reader did not want.
    ///   - received: number of all others that it has.
    init(_ counters: BatchCounters, deleted: Int, skipped: Int, received: Int) {
        self.deleted = deleted + counters["results_dropped"]
        let jobs = max(counters["submitted"], counters["total"]) - counters["cancelled"]
        lost = counters.isFinished ? max(0, jobs - skipped - received - self.deleted) : 0
    }

    var isEmpty: Bool { deleted == 0 && lost == 0 }

    /// Sentences for people.
    func report(of batch: String) -> [String] {
        var lines: [String] = []
        if deleted > 0 {
            lines.append(
                "\(Counted.of(deleted, "outcome")) of the batch \(batch) \(deleted == 1 ? "is" : "are") missing: "
                    + "\(deleted == 1 ? "it was" : "they were") not read in time and deleted to make room, or another "
                    + "client has read \(deleted == 1 ? "it" : "them")."
            )
        }
        if lost > 0 {
            lines.append(
                "\(Counted.of(lost, "outcome")) of the batch \(batch) \(lost == 1 ? "is" : "are") missing: Redis has "
                    + "lost \(lost == 1 ? "it" : "them"), as a replica that lagged took over or it restarted from an "
                    + "older file. The jobs may have run. Submit those without a line again: finished work is in the "
                    + "cache."
            )
        }
        return lines
    }
}

extension OutcomeHistories {
    /// Reports that Redis has returned to an earlier state.
    func reportReturn() {
        Terminal.error(
            "megaton: Redis has returned to an earlier state. Outcomes that were read before are skipped"
                + (isExact ? "." : ", except for the oldest ones, which may have a second line.")
        )
    }
}
