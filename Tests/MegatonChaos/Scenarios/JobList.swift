import Foundation
import MegatonCluster

/// Lists of jobs for `megaton submit`, and the ledgers that come back.
enum JobList {
    /// Writes a `.jsonl`: each source in each width, so that every job is a render of its own. One source after the
    /// other, so that originals are fetched until the end and not all at the beginning.
    ///
    /// - Returns: how many jobs.
    static func write(_ sources: [String], widths: Range<Int>, to path: String) throws -> Int {
        let lines = sources.flatMap { source in
            widths.map { #"{"source":"\#(source)","renditions":[{"width":\#($0),"height":\#($0)}]}"# }
        }
        try write(lines, to: path)
        return lines.count
    }

    static func write(_ lines: [String], to path: String) throws {
        try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: URL(fileURLWithPath: path))
    }

    /// The lines of a ledger that are whole; the last one of a submitter that was killed may not be.
    static func outcomes(_ ledger: String) -> [JobOutcome] {
        (FileManager.default.contents(atPath: ledger) ?? Data()).split(separator: 10).compactMap {
            try? JSONDecoder().decode(JobOutcome.self, from: Data($0))
        }
    }
}
