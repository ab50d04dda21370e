import Foundation
import MegatonCluster

/// Lists of jobs for `megaton submit`, and the ledgers that it writes.
enum JobList {
    /// Writes a `.jsonl` file with each source in each width, so that every job needs its own render. All widths of a
    /// source come together, so that originals are fetched throughout the run and not all at its start.
    ///
    /// - Returns: number of jobs.
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

    /// Complete lines of a ledger; the last line of a killed submitter may be incomplete.
    static func outcomes(_ ledger: String) -> [JobOutcome] {
        (FileManager.default.contents(atPath: ledger) ?? Data()).split(separator: 10).compactMap {
            try? JSONDecoder().decode(JobOutcome.self, from: Data($0))
        }
    }
}
