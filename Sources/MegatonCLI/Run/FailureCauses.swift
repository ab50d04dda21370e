import Foundation
import MegatonCluster
import MegatonCommandLine

/// Failures by code and cause, as `run` and `submit` report them at the end.
///
/// Two messages have one cause if they differ only in names, paths, URLs, quotations and numbers.
struct FailureCauses {
    private struct Cause: Hashable {
        let code: String
        let words: String
    }

    private var found: [Cause: (count: Int, example: String)] = [:]
    /// Failures of causes beyond the limit, by code.
    private var others: [String: Int] = [:]

    private static let title = "failures by code and cause, each with its first message:"

    /// Maximum number of causes that are counted separately.
    private static let limit = 500
    /// Maximum number of causes that are printed.
    private static let shown = 20
    /// Maximum length of a printed message, characters; the ledger has all of it.
    private static let messageLimit = 400

    mutating func add(_ error: JobOutcome.Failure, source: String) {
        let cause = Cause(code: error.code, words: Self.words(error.message, source))
        if found[cause] == nil && found.count >= Self.limit {
            others[error.code, default: 0] += 1
        } else {
            found[cause, default: (0, error.message)].count += 1
        }
    }

    /// The beginning of the note that a worker adds to a failure that it has not met again.
    private static let remembered = " (remembered for another "

    /// A message without the parts that differ from job to job.
    private static func words(_ message: String, _ source: String) -> String {
        var text = message
        // The message of a file may contain its path, whose spaces would be taken for ends of words.
        let path = source.hasPrefix("file://") ? String(source.dropFirst(7)).removingPercentEncoding ?? "" : ""
        // The first bytes of images differ even if their formats are the same.
        if let start = text.range(of: " (they begin "),
            let end = text.range(of: "); ", range: start.upperBound..<text.endIndex)
        {
            text.removeSubrange(start.lowerBound..<end.lowerBound)
        }
        // The first failure of a source and those that are remembered have one cause.
        if let start = text.range(of: Self.remembered),
            let end = text.range(of: " s)", range: start.upperBound..<text.endIndex)
        {
            text.removeSubrange(start.lowerBound..<end.upperBound)
        }
        for name in [source, path] where name.utf8.count > 1 { text = text.replacingOccurrences(of: name, with: "…") }
        var isQuoted = false
        // By bytes: a list from the web may have a million failures.
        return text.split(separator: " ").map { word in
            let quotes = word.utf8.count { $0 == UInt8(ascii: "\"") }
            defer { if !quotes.isMultiple(of: 2) { isQuoted.toggle() } }
            if isQuoted || quotes > 0 { return "…" }
            if word.utf8.contains(UInt8(ascii: "/")) || word.utf8.dropFirst().dropLast().contains(where: Self.isName) {
                return "…"
            }
            return Self.hasNumber(word) ? "#" : String(word)
        }.reduce(into: []) { (words: inout [String], word) in
            // Names of several words count as one.
            if word != "…" || words.last != "…" { words.append(word) }
        }.joined(separator: " ")
    }

    /// Whether a byte within a word shows that it names something.
    private static func isName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: ":"), UInt8(ascii: "="), UInt8(ascii: "%"), UInt8(ascii: "@"), UInt8(ascii: "\\"): true
        default: false
        }
    }

    private static func hasNumber(_ word: Substring) -> Bool {
        word.utf8.contains { (48...57).contains($0) }
            || word.utf8.contains { $0 >= 0x80 } && word.contains(where: \.isNumber)
    }

    /// Failures of one cause.
    struct Row: Encodable, Equatable {
        let code: String
        let count: Int
        /// The first message.
        let example: String
    }

    /// All causes that were counted separately, the most frequent first.
    private var sorted: [Row] {
        found.map { Row(code: $0.key.code, count: $0.value.count, example: $0.value.example) }.sorted {
            ($0.count, $1.code, $1.example) > ($1.count, $0.code, $0.example)
        }
    }

    /// The most frequent causes, with their messages shortened.
    var top: [Row] {
        sorted.prefix(Self.shown).map { Row(code: $0.code, count: $0.count, example: Self.shortened($0.example)) }
    }

    /// Number of failures of other causes than the most frequent ones.
    var rest: Int { sorted.dropFirst(Self.shown).reduce(0) { $0 + $1.count } + others.values.reduce(0, +) }

    /// One line each, the most frequent first.
    var rows: [String] {
        let sorted = sorted
        let top = sorted.prefix(Self.shown)
        let width = top.map(\.code.count).max() ?? 0
        var rows = top.map { row in
            let code = row.code.padding(toLength: width, withPad: " ", startingAt: 0)
            let number = String(row.count)
            let indent = String(repeating: " ", count: max(0, 6 - number.count))
            return "  \(indent)\(number)  \(code)  \(Self.shortened(row.example))"
        }
        let rest = self.rest
        if rest > 0 { rows.append("  \(Counted.of(rest, "more failure")), of other causes; the ledger has them") }
        return rows
    }

    /// Reports the rows of failures, if there are any.
    ///
    /// - Parameter isOfCluster: whether only workers of a cluster did the jobs, which have options of their own.
    static func report(_ rows: String, isOfCluster: Bool) {
        if rows.isEmpty { return }
        Terminal.error("megaton: \(title)\n\(rows)")
        if isOfCluster, let remark = workerOptions(in: rows) { Terminal.error("megaton: \(remark)") }
    }

    /// A sentence on the options that messages of workers name, as the command itself may lack them; nil if there are
    /// none.
    static func workerOptions(in rows: String) -> String? {
        let found = Set(options(in: rows)).intersection(namesOfWorkers).sorted()
        if found.isEmpty { return nil }
        let (are, them) = found.count == 1 ? ("is an option", "it") : ("are options", "them")
        return "\(found.joined(separator: ", ")) \(are) of megaton worker: start the workers of the cluster with "
            + "\(them)."
    }

    /// The options in the messages of workers, without those of jobs.
    private static let namesOfWorkers = Set(WorkerOptions.optionNames.values.flatMap { options(in: $0) })
        .subtracting(RenditionOptions.names.map { "--\($0)" } + ["--workers"])

    private static func options(in text: String) -> [String] {
        text.split { !$0.isLetter && !$0.isNumber && $0 != "-" }.map(String.init).filter { $0.hasPrefix("--") }
    }

    private static func shortened(_ message: String) -> String {
        let line = TextColumns.oneLine(message)
        return line.count > messageLimit ? "\(line.prefix(messageLimit - 1))…" : line
    }
}
