internal import CXXHash
internal import Crypto
package import Foundation
internal import MegatonCore

/// The outcomes of a batch that a reader has, in the order of their numbers in Redis.
///
/// A Redis that fails over to a replica that lagged, or restarts from an older file, has fewer outcomes than its
/// reader, and numbers those that follow anew. The reader then continues with what Redis has, and ignores the outcomes
/// that it has already; it recognizes them by their ids. An id may occur several times in a batch, so that the ids are
/// counted.
package struct OutcomeHistory: Sendable {
    /// 128 bits of a job's id; of the whole line if it has none.
    private struct Key: Hashable {
        var low: UInt64
        var high: UInt64

        /// Stands for an outcome that was deleted unread.
        static let unknown = Key(low: 0, high: 0)
    }

    /// Keys of the outcomes with the numbers `first + 1` to `number`.
    private var keys: [Key] = []
    private var first: Int
    /// Outcomes that the reader has and Redis has not sent again since it went back.
    private var expected: [Key: Int] = [:]
    /// Whether the outcomes were read from a file, whose lines need not be in the order of their numbers.
    private let isFromFile: Bool
    /// Number of lines of that file.
    package private(set) var lines = 0
    /// Maximum number of keys, 16 bytes each.
    let limit: Int

    /// Number of outcomes that a reader remembers, of all shards together.
    package static let remembered = 4_000_000

    /// SHA-1 of the last outcome in hex; empty if it is unknown.
    private(set) var digest = ""
    /// How often Redis has returned to an earlier state.
    package private(set) var returns = 0
    /// Number of outcomes that were deleted before this reader had them.
    package private(set) var deleted = 0
    /// Whether Redis went back further than this history: outcomes may then be read twice.
    package private(set) var isExact = true

    /// - Parameters:
    ///   - number: number of the last outcome that the reader has or does not want.
    ///   - limit: how many outcomes to remember; the oldest are forgotten.
    package init(after number: Int = 0, limit: Int = remembered) {
        first = number
        self.limit = limit
        isFromFile = false
    }

    /// Number of outcomes that a reader may have written and not acknowledged: two calls of the script `results`.
    private static let unacknowledged = 20_000

    /// The history of a reader that continues a file.
    ///
    /// - Parameters:
    ///   - mark: number and digest of the last outcome that a reader has acknowledged, as Redis has it. If one of the
    ///     last lines has this digest, the file continues behind that number and the lines that follow, even if it has
    ///     fewer lines: its reader did not want the first ones, or did not find them.
    ///   - nextLine: returns the lines of the file, nil at the end.
    package init(lines nextLine: () throws -> Data?, mark: String = "", limit: Int = remembered) rethrows {
        first = 0
        self.limit = limit
        isFromFile = true
        var last: [Data] = []
        while let line = try nextLine() {
            append(Self.key(line))
            last.append(line)
            if last.count > 2 * Self.unacknowledged { last.removeFirst(Self.unacknowledged) }
        }
        digest = last.last.map(Self.digest) ?? ""
        lines = number
        let parts = mark.split(separator: ":")
        guard parts.count == 2, let marked = Int(parts[0]),
            let index = last.lastIndex(where: { Self.digest($0) == parts[1] })
        else { return }
        first += max(0, marked + last.count - 1 - index - number)
    }

    /// Number of the last outcome that the reader has.
    package var number: Int { first + keys.count }

    /// Takes a page in.
    ///
    /// - Returns: the outcomes that the reader does not have yet.
    mutating func accept(_ page: OutcomePage) -> [Data] {
        switch page.state {
        case .continues: break
        case .wentBack:
            returns += 1
            goBack(to: page.start)
        case .deleted: skip(to: page.start)
        }
        var fresh: [Data] = []
        for line in page.lines {
            let key = Self.key(line)
            append(key)
            if let count = expected[key] {
                expected[key] = count == 1 ? nil : count - 1
            } else {
                fresh.append(line)
            }
        }
        if let last = page.lines.last { digest = Self.digest(last) }
        return fresh
    }

    /// The first of these ids of which the reader has no outcome, among those that it remembers. An id that occurs
    /// twice here must have two.
    package func ids(missingFrom ids: some Sequence<String>, limit: Int) -> [String] {
        Self.ids(missingFrom: ids, in: [self], limit: limit)
    }

    /// The same for outcomes that several histories have together.
    static func ids(missingFrom ids: some Sequence<String>, in histories: [OutcomeHistory], limit: Int) -> [String] {
        var known: [Key: Int] = [:]
        for history in histories {
            known.merge(history.expected, uniquingKeysWith: +)
            for key in history.keys { known[key, default: 0] += 1 }
        }
        var missing: [String] = []
        for id in ids where missing.count < limit {
            let key = key(ofID: Array(id.utf8))
            if let count = known[key], count > 0 { known[key] = count - 1 } else { missing.append(id) }
        }
        return missing
    }

    private mutating func append(_ key: Key) {
        keys.append(key)
        guard keys.count > limit else { return }
        let count = keys.count - limit * 3 / 4
        keys.removeFirst(count)
        first += count
    }

    private mutating func goBack(to start: Int) {
        digest = ""
        guard start <= number else { return skip(to: start) }
        // Lines of a file before that number need not be those that Redis had sent before it.
        let kept = isFromFile ? 0 : max(start - first, 0)
        if start < first || (isFromFile && first > 0) { isExact = false }
        for key in keys[kept...] where key != .unknown { expected[key, default: 0] += 1 }
        keys.removeSubrange(kept...)
        first = start - kept
    }

    private mutating func skip(to start: Int) {
        let count = max(start - number, 0)
        deleted += count
        let remembered = min(count, limit / 2)
        first += count - remembered
        for _ in 0..<remembered { append(.unknown) }
        digest = ""
    }

    // MARK: - Keys

    private static let field = Array(#""id":""#.utf8)

    /// A quotation mark in a text is escaped in JSON, so that the first `"id":"` is the outcome's own field, or that of
    /// its job.
    private static func key(_ line: Data) -> Key {
        line.withUnsafeBytes { bytes in
            var start = 0
            while start + field.count <= bytes.count {
                if bytes[start] == field[0], field.indices.allSatisfy({ bytes[start + $0] == field[$0] }) {
                    let value = bytes[(start + field.count)...]
                    guard let end = value.firstIndex(of: UInt8(ascii: "\"")) else { break }
                    return key(UnsafeRawBufferPointer(rebasing: value[..<end]))
                }
                start += 1
            }
            return key(bytes)
        }
    }

    private static func key(ofID id: [UInt8]) -> Key { id.withUnsafeBytes { key($0) } }

    private static func key(_ bytes: UnsafeRawBufferPointer) -> Key {
        let hash = XXH3_128bits(bytes.baseAddress, bytes.count)
        return Key(low: hash.low64, high: hash.high64)
    }

    /// 128 bits that distinguish a whole line from all others.
    package static func identity(of line: Data) -> (low: UInt64, high: UInt64) {
        let identity: Key = line.withUnsafeBytes { key($0) }
        return (identity.low, identity.high)
    }

    private static func digest(_ line: Data) -> String { Insecure.SHA1.hash(data: line).hexDigits }
}
