import Foundation
import MegatonCluster
import MegatonCore

/// The outputs that earlier runs have made beneath the output directory, by their names there.
///
/// Takes 49 bytes for each, whatever the length of its name, so that a ledger may have millions of lines: the names are
/// read again from the ledger where they are needed.
struct OutputIndex: Sendable {
    /// An output as the last line about it has it. Digests and sizes have 32 bits here: enough for a plan.
    struct Entry: Sendable {
        fileprivate let high: UInt64
        fileprivate let low: UInt64
        fileprivate let order: UInt32
        fileprivate let bytes: UInt32
        fileprivate let sha256: UInt32
        fileprivate let source: UInt32
        fileprivate let options: UInt32
        fileprivate let sourceBytes: UInt32

        fileprivate var key: (UInt64, UInt64) { (high, low) }

        func hasSize(_ size: Int) -> Bool { bytes == UInt32(truncatingIfNeeded: size) }

        /// - Parameter digest: 64 hex digits.
        func hasDigest(_ digest: String) -> Bool { sha256 == OutputIndex.word(digest) }

        func isFrom(_ source: String) -> Bool { self.source == OutputIndex.hash(ofSource: source) }

        /// Whether the output was made with these options; true if its line does not have them.
        func mayHaveOptions(_ digest: String) -> Bool { options == 0 || options == OutputIndex.word(digest) }

        /// Whether its source had this size; true if its line does not have it.
        func mayHaveSource(ofSize size: Int) -> Bool {
            sourceBytes == 0 || sourceBytes == UInt32(truncatingIfNeeded: size)
        }
    }

    private var entries: [Entry] = []
    private var marks: [Bool] = []
    /// Present outputs whose names differ from earlier ones in case alone.
    private(set) var variants = NameVariants()
    /// Number of outputs that were added.
    private var added: UInt32 = 0
    /// Whether there are more outputs than can be remembered.
    private(set) var isOverfull = false

    /// Maximum number of outputs, about 500 MB.
    static let limit = 10_000_000

    /// Adds an output. A later one of the same name replaces it.
    ///
    /// - Parameter name: below the output directory.
    /// - Returns: its number, from 1.
    @discardableResult
    mutating func add(_ name: String, _ output: EarlierLedger.Line.Output, of line: EarlierLedger.Line) -> UInt32 {
        added &+= 1
        guard entries.count < Self.limit else {
            isOverfull = true
            return added
        }
        let (low, high) = OutcomeHistory.identity(of: Data(name.utf8))
        variants.add(name)
        entries.append(
            Entry(
                high: high,
                low: low,
                order: added,
                bytes: UInt32(truncatingIfNeeded: output.bytes),
                sha256: Self.word(output.sha256),
                source: Self.hash(ofSource: line.source),
                options: output.options.map(Self.word) ?? 0,
                sourceBytes: UInt32(truncatingIfNeeded: line.facts?.bytes ?? 0)
            )
        )
        return added
    }

    /// Ends the additions: outputs can be found from now on.
    mutating func seal() {
        entries.sort { $0.key == $1.key ? $0.order < $1.order : $0.key < $1.key }
        var kept = 0
        // By position: an iterator would hold a second array.
        for position in entries.indices {
            if kept > 0, entries[kept - 1].key == entries[position].key { kept -= 1 }
            entries[kept] = entries[position]
            kept += 1
        }
        entries.removeLast(entries.count - kept)
        marks = Array(repeating: false, count: kept)
        variants.seal()
    }

    var count: Int { entries.count }

    /// The position of an output; nil if no earlier run has made it.
    private func position(of name: String) -> Int? {
        let (low, high) = OutcomeHistory.identity(of: Data(name.utf8))
        var (start, end) = (0, entries.count)
        while start < end {
            let middle = (start + end) / 2
            if entries[middle].key < (high, low) { start = middle + 1 } else { end = middle }
        }
        return start < entries.count && entries[start].key == (high, low) ? start : nil
    }

    /// Whether the output with this number is the last one of its name.
    func isLast(_ name: String, number: UInt32) -> Bool { position(of: name).map { entries[$0].order } == number }

    /// Notes that the present run makes an output.
    ///
    /// - Returns: the earlier one; nil if no earlier run has made it.
    @discardableResult
    mutating func mark(_ name: String) -> Entry? {
        variants.note(name)
        guard let position = position(of: name) else { return nil }
        marks[position] = true
        return entries[position]
    }

    /// Whether only an earlier run has made this output.
    func isOrphan(_ name: String) -> Bool { position(of: name).map { !marks[$0] } ?? false }

    /// Number of outputs that only an earlier run has made.
    var orphanCount: Int { marks.count { !$0 } }

    /// The output, if only an earlier run has made it and it was not returned before: a name may have several lines.
    mutating func takeOrphan(_ name: String) -> Entry? {
        guard let position = position(of: name), !marks[position] else { return nil }
        marks[position] = true
        return entries[position]
    }

    /// The first 32 bits of hex digits, and never 0, which stands for none.
    private static func word(_ digits: String) -> UInt32 { max(UInt32(digits.prefix(8), radix: 16) ?? 1, 1) }

    static func hash(ofSource source: String) -> UInt32 {
        let shown = source.truncated(to: JobOutcome.maximumSource)
        return UInt32(truncatingIfNeeded: OutcomeHistory.identity(of: Data(shown.utf8)).low)
    }
}

/// The output directory, by which outputs are known under their names beneath it.
struct OutputRoot: Sendable {
    /// Absolute.
    let path: String
    private let prefix: String
    private let realPrefix: String
    /// Directories that were resolved last; nil for one that is no other by its links.
    private var resolved: [String: String?] = [:]

    private static let resolvedLimit = 1000

    init(_ path: String) {
        self.path = path
        prefix = path.hasSuffix("/") ? path : path + "/"
        let real = Self.real(path) ?? path
        realPrefix = real.hasSuffix("/") ? real : real + "/"
    }

    /// The name of a path beneath the directory; nil if the path is elsewhere, or leads out of it by its text.
    func name(of path: String) -> String? { Self.name(of: path, beneath: prefix) }

    /// The names of a path: by its text, and without links. Asks the file system.
    mutating func names(of path: String) -> [String] {
        let names = name(of: path).map { [$0] } ?? []
        // Compared by bytes: a combining mark after the slash would make it another character.
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return names }
        let directory = String(path[..<slash])
        let file = path[slash...]
        if resolved[directory] == nil {
            if resolved.count >= Self.resolvedLimit { resolved = [:] }
            let real = Self.real(directory)
            // A directory that is not there yet may become a link. Names are bytes, which equal strings may not share.
            if real == nil { return names }
            resolved[directory] = .some(real?.utf8.elementsEqual(directory.utf8) == true ? nil : real)
        }
        guard let real = resolved[directory] ?? nil, let other = Self.name(of: real + file, beneath: realPrefix) else {
            return names
        }
        return names.contains { $0.utf8.elementsEqual(other.utf8) } ? names : names + [other]
    }

    /// The name of the file to which a path leads; nil if it is elsewhere, or there is none. Asks the file system.
    func target(of path: String) -> String? { Self.real(path).flatMap { Self.name(of: $0, beneath: realPrefix) } }

    /// Whether one of the other names leads to the same file, as the file system ignores case, or as it has several
    /// names. Asks the file system. One that cannot be asked counts as the same: its file must not be lost.
    func isSameFile(_ name: String, as others: [String]) -> Bool {
        if others.isEmpty { return false }
        var (file, other) = (stat(), stat())
        guard lstat(prefix + name, &file) == 0 else { return errno != ENOENT && errno != ENOTDIR }
        return others.contains { variant in
            guard lstat(prefix + variant, &other) == 0 else { return errno != ENOENT && errno != ENOTDIR }
            return other.st_ino == file.st_ino && other.st_dev == file.st_dev
        }
    }

    private static func name(of path: String, beneath prefix: String) -> String? {
        guard path.utf8.starts(with: prefix.utf8) else { return nil }
        let parts = path.utf8.dropFirst(prefix.utf8.count).split(separator: UInt8(ascii: "/"))
            .map { String(decoding: $0, as: UTF8.self) }.filter { $0 != "." }
        return parts.isEmpty || parts.contains("..") ? nil : parts.joined(separator: "/")
    }

    private static func real(_ path: String) -> String? {
        guard let real = realpath(path.isEmpty ? "/" : path, nil) else { return nil }
        defer { free(real) }
        return String(cString: real)
    }
}
