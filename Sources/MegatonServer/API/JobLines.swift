internal import Foundation
internal import Hummingbird
internal import MegatonCluster
internal import NIOCore

/// Splits a stream of bytes into the lines of a list of jobs. At most one line is in memory, beside the buffer that
/// arrived last.
struct JobLines {
    struct Line: Equatable {
        /// From 1, empty lines included.
        let number: Int
        let json: Data
    }

    /// Maximum number of bytes of a line, as of a job.
    static let maximumBytes = Job.maximumSize
    static let maximumLines = 10_000_000

    /// The beginning of the line that has not ended.
    private var begun = Data()
    private var number = 0

    /// The lines that end in a buffer, without the empty ones.
    ///
    /// - Throws: an error with the status 413 for a line that is too long, or for too many lines.
    mutating func add(_ buffer: ByteBuffer) throws(APIError) -> [Line] {
        var lines: [Line] = []
        var rest = buffer.readableBytesView[...]
        while let lineBreak = rest.firstIndex(of: UInt8(ascii: "\n")) {
            try append(rest[..<lineBreak])
            rest = rest[(lineBreak + 1)...]
            if let line = try endLine() { lines.append(line) }
        }
        try append(rest)
        return lines
    }

    /// The last line, if it has no line break.
    mutating func finish() throws(APIError) -> Line? { begun.isEmpty ? nil : try endLine() }

    private mutating func append(_ bytes: some Collection<UInt8>) throws(APIError) {
        guard begun.count + bytes.count <= Self.maximumBytes else {
            throw APIError(
                .contentTooLarge,
                "Line \(number + 1) has more than \(Self.maximumBytes) bytes, the most that a job may have."
            )
        }
        begun.append(contentsOf: bytes)
    }

    private mutating func endLine() throws(APIError) -> Line? {
        number += 1
        guard number <= Self.maximumLines else {
            throw APIError(
                .contentTooLarge,
                "The list has more than \(Self.maximumLines) lines; submit it in several batches."
            )
        }
        defer { begun = Data() }
        var json = begun
        // A byte order mark.
        if number == 1, json.starts(with: [0xEF, 0xBB, 0xBF]) { json = Data(json.dropFirst(3)) }
        if json.last == UInt8(ascii: "\r") { json.removeLast() }
        let isEmpty = json.allSatisfy { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
        return isEmpty ? nil : Line(number: number, json: json)
    }
}
