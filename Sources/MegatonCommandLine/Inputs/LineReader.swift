import Foundation
package import MegatonCluster
import MegatonPipeline

/// Reads lines as they arrive, without waiting for a full block.
package struct LineReader {
    /// Result of one read.
    package enum ReadResult: Equatable {
        case line(String)
        /// A line above the limit, with its beginning; the rest is skipped.
        case tooLong(String)
        /// No whole line is available: its writer is slow, or a long line is being skipped.
        case nothingYet
        case end
    }

    private let descriptor: Int32
    /// Path of the list as it was opened, or `standard input`.
    package let name: String
    /// The byte that ends a line.
    private let separator: UInt8
    private var buffer = Data()
    /// Number of bytes at the beginning of the buffer that have no line end.
    private var searched = 0
    private var isAtEnd = false
    private var number = 0
    /// The beginning of a line above the limit whose end has not been read yet.
    private var beginning: Data?
    /// The last line, if it is not UTF-8; its text has replacement characters.
    package private(set) var invalidBytes: [UInt8]?
    /// Whether the last line is UTF-8.
    package var isUTF8: Bool { invalidBytes == nil }

    private static let blockSize = 256 * 1024
    /// Maximum size of a line, bytes.
    package static let lineLimit = 2 * 1024 * 1024
    /// Bytes of a longer line that are shown: as many as of a job's source.
    private static let beginningSize = 2048

    /// Creates a reader.
    ///
    /// - Parameters:
    ///   - descriptor: stays open until the process ends, as lists are few.
    ///   - separator: the byte that ends a line. With a zero byte the lines are names, which may contain line ends, and
    ///     are left as they are.
    package init(_ descriptor: Int32, name: String, separator: UInt8 = 10) {
        self.descriptor = descriptor
        self.name = name
        self.separator = separator
    }

    /// Bytes after the last line that have been read already.
    var available: Data { buffer }

    /// Location of the last line.
    package var location: LineLocation { LineLocation(list: name, number: number) }

    /// Reads the next line.
    ///
    /// - Parameter milliseconds: how long to wait for bytes; negative waits without limit.
    /// - Throws: `CLIError` if the file cannot be read.
    package mutating func next(waiting milliseconds: Int32) throws -> ReadResult {
        while true {
            if let end = lineEnd() {
                let line = buffer[buffer.startIndex..<end]
                buffer = buffer[(end + 1)...]
                searched = 0
                return result(line)
            }
            if isAtEnd {
                guard !buffer.isEmpty || beginning != nil else { return .end }
                defer { clear() }
                return result(buffer)
            }
            if buffer.count > Self.lineLimit {
                beginning = beginning ?? Data(buffer.prefix(Self.beginningSize))
                clear()
                // A caller with a time limit may have to stop meanwhile.
                if milliseconds >= 0 { return .nothingYet }
            }
            guard try isReadable(milliseconds) else { return .nothingYet }
            try fill()
        }
    }

    /// Waits for the next line; nil at the end. Lines above the limit are skipped.
    ///
    /// - Throws: `CLIError` if the file cannot be read.
    package mutating func nextLine() throws -> String? {
        while true {
            switch try next(waiting: -1) {
            case .line(let line): return line
            case .tooLong, .nothingYet: continue
            case .end: return nil
            }
        }
    }

    /// The index of the next line end. Bytes are searched once: a long line comes in several blocks.
    private mutating func lineEnd() -> Data.Index? {
        let found = buffer.withUnsafeBytes { bytes -> Int? in
            guard let start = bytes.baseAddress, searched < bytes.count else { return nil }
            let found = memchr(start + searched, Int32(separator), bytes.count - searched)
            return found.map { UnsafeRawPointer($0) - start }
        }
        searched = buffer.count
        return found.map { buffer.startIndex + $0 }
    }

    private mutating func clear() {
        buffer = Data()
        searched = 0
    }

    private mutating func result(_ line: Data) -> ReadResult {
        let long = beginning ?? (line.count > Self.lineLimit ? Data(line.prefix(Self.beginningSize)) : nil)
        guard let long else { return .line(text(line)) }
        beginning = nil
        return .tooLong(text(long))
    }

    /// The text without the byte-order mark that some editors put in front of the first line.
    private mutating func text(_ line: Data) -> String {
        number += 1
        let hasMark = number == 1 && separator != 0 && line.starts(with: [0xEF, 0xBB, 0xBF])
        let bytes = hasMark ? line.dropFirst(3) : line
        let text = String(validating: bytes, as: UTF8.self)
        invalidBytes = text == nil ? Array(bytes) : nil
        return text ?? String(decoding: bytes, as: UTF8.self)
    }

    private func isReadable(_ milliseconds: Int32) throws -> Bool {
        var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        let count = poll(&request, 1, milliseconds)
        if count < 0 && errno != EINTR { throw readFailure() }
        return count > 0
    }

    private mutating func fill() throws {
        var block = Data(count: Self.blockSize)
        let count = block.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
        if count < 0 {
            if errno == EINTR || errno == EAGAIN { return }
            throw readFailure()
        }
        isAtEnd = count == 0
        // The rest of the previous block is small, and copying it releases the storage of the consumed part.
        buffer = Data(buffer) + block.prefix(count)
    }

    private func readFailure() -> CLIError {
        CLIError.usage("\(name) cannot be read: \(String(cString: strerror(errno))).")
    }
}

/// Location of a line, or of another part of an input, for messages: `jobs.jsonl, line 3`.
package struct LineLocation: Sendable, Equatable, CustomStringConvertible {
    /// Path of the list as it was opened, or `standard input`.
    package let list: String
    /// Line number, from 1.
    package let number: Int
    /// The noun for the number.
    var unit = "line"

    package var description: String { "\(list), \(unit) \(number)" }
}

/// Reports lines of lists that are not jobs: the first ones each, the others by their number, as a list may have
/// millions.
package struct InvalidLineReporter {
    private var count = 0

    private static let shown = 20

    package init() {}

    package mutating func add(_ location: LineLocation, _ error: JobError) {
        add(location, "is not a job: \(error.message)")
    }

    /// - Parameter reason: the verb and the rest of the sentence.
    package mutating func add(_ location: LineLocation, _ reason: String) {
        count += 1
        if count <= Self.shown { Terminal.error(FieldProblem.sentence("megaton: \(location) \(reason)")) }
    }

    /// Reports the number of the others. Called when all lines were read.
    package mutating func end() {
        if count > Self.shown {
            Terminal.error(
                "megaton: \(Counted.lines(count - Self.shown, "more")) could not be used, for similar reasons."
            )
        }
        count = 0
    }
}
