import Foundation
import MegatonCluster
import MegatonCommandLine

/// The outcomes of earlier runs: those of the ledger that a run would replace, and before them those that a run with
/// `--delete-orphans` has saved, as it had not come to its end.
struct EarlierLedger: Sendable {
    /// The fields of a line that a plan needs, which are decoded faster than a whole outcome.
    struct Line: Decodable {
        struct Output: Decodable {
            let name: String
            let path: String?
            let format: String
            let bytes: Int
            let sha256: String
            let from: String
            let options: String?
        }

        struct Facts: Decodable {
            let bytes: Int?
        }

        struct Failure: Decodable {
            let code: String
        }

        struct Times: Decodable {
            let fetching: Double
            let rendering: Double
        }

        let id: String?
        let source: String
        let status: JobOutcome.Status
        let outputs: [Output]
        let times: Times?
        let facts: Facts?
        let error: Failure?
    }

    /// Absolute path of the ledger.
    let ledger: String

    /// Path of the saved lines.
    var saved: String { ledger + ".earlier" }

    /// Whether the ledger has lines.
    var exists: Bool { (Self.size(of: ledger) ?? 0) > 0 }

    /// Whether the ledger has lines that are read in less than a second or two, before each run.
    var isBrief: Bool { (1...Self.briefSize).contains(Self.size(of: ledger) ?? 0) }

    private static let briefSize = 8 * 1024 * 1024

    /// When the last line of the ledger was written, seconds since 1970; 0 without a ledger.
    var time: Double {
        var info = stat()
        return stat(ledger, &info) == 0 ? info.modified : 0
    }

    /// Whether there is a file at the path of the saved lines that has other content. Blocks.
    ///
    /// - Throws: `CLIError` if it cannot be read.
    func savedIsForeign() throws -> Bool {
        guard let size = Self.size(of: saved), size > 0 else { return false }
        var isForeign = true
        try Self.read(saved) { _, _ in
            isForeign = false
            return false
        }
        return isForeign
    }

    private static func size(of path: String) -> Int? {
        var info = stat()
        guard stat(path, &info) == 0, info.st_mode & S_IFMT == S_IFREG else { return nil }
        return Int(info.st_size)
    }

    /// Reads the lines, the oldest first. Others than outcomes, such as one that was cut off, are skipped. Blocks.
    ///
    /// - Parameter body: called with the line, its text, and whether it is a saved one; returns false to stop.
    /// - Throws: `CLIError` if a file cannot be read.
    func read(_ body: (Line, _ text: String, _ isSaved: Bool) throws -> Bool) throws {
        var goesOn = true
        let saved = saved
        for path in [saved, ledger] where goesOn {
            try Self.read(path) { line, text in
                goesOn = try body(line, text, path == saved)
                return goesOn
            }
        }
    }

    private static func read(_ path: String, _ body: (Line, _ text: String) throws -> Bool) throws {
        guard size(of: path) != nil else { return }
        let decoder = JSONDecoder()
        var reader = try InputReader.lines(of: path)
        while let text = try reader.nextLine() {
            guard let line = try? decoder.decode(Line.self, from: Data(text.utf8)) else { continue }
            if try !body(line, text) { return }
        }
    }

    /// Reads the saved outputs alone, those of the earlier runs while a run writes its own lines. Blocks.
    func readSaved(_ body: (Line, Line.Output, _ path: String) throws -> Bool) throws {
        try Self.read(saved) { line, _ in
            for output in line.outputs {
                if let path = output.path, try !body(line, output, path) { return false }
            }
            return true
        }
    }

    /// Reads the outputs that have paths, the oldest first. Blocks.
    func readOutputs(_ body: (Line, Line.Output, _ path: String) throws -> Bool) throws {
        try read { line, _, _ in
            for output in line.outputs {
                if let path = output.path, try !body(line, output, path) { return false }
            }
            return true
        }
    }
}

extension stat {
    /// Time of the last change of the content, seconds since 1970.
    var modified: Double { Double(st_mtim.tv_sec) + Double(st_mtim.tv_nsec) / 1e9 }

    var isRegular: Bool { st_mode & S_IFMT == S_IFREG }
}
