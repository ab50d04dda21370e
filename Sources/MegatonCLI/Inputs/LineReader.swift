import Foundation

/// Reads lines as they come, without waiting for a block to be full.
struct LineReader {
    /// What a look gave.
    enum Look: Equatable {
        case line(String)
        /// Nothing is there yet: whoever writes is slow.
        case nothingYet
        case end
    }

    private let descriptor: Int32
    private let name: String
    private var buffer = Data()
    private var isAtEnd = false
    private var number = 0
    /// Whether the line that was read last is UTF-8; other bytes are replaced in its text.
    private(set) var isUTF8 = true

    private static let blockSize = 256 * 1024
    /// Bytes of one line.
    private static let lineLimit = 2 * 1024 * 1024

    /// - Parameter descriptor: stays open until the process ends; lists are few.
    init(_ descriptor: Int32, name: String) {
        self.descriptor = descriptor
        self.name = name
    }

    /// Of the line that was read last.
    var place: LinePlace { LinePlace(list: name, number: number) }

    /// - Parameter milliseconds: how long to wait for bytes.
    /// - Throws: `Failure` where the file cannot be read, or a line is too long.
    mutating func next(waiting milliseconds: Int32) throws -> Look {
        while true {
            if let end = buffer.firstIndex(of: 10) {
                let line = buffer[buffer.startIndex..<end]
                buffer = buffer[(end + 1)...]
                return .line(text(line))
            }
            if isAtEnd {
                guard !buffer.isEmpty else { return .end }
                defer { buffer = Data() }
                return .line(text(buffer))
            }
            guard buffer.count <= Self.lineLimit else {
                throw Failure.usage("\(name): line \(number + 1) is longer than \(Self.lineLimit) bytes.")
            }
            guard try isReadable(milliseconds) else { return .nothingYet }
            try fill()
        }
    }

    /// Without the byte-order mark that some editors put in front of the first line.
    private mutating func text(_ line: Data) -> String {
        number += 1
        let hasMark = number == 1 && line.starts(with: [0xEF, 0xBB, 0xBF])
        let bytes = hasMark ? line.dropFirst(3) : line
        let text = String(validating: bytes, as: UTF8.self)
        isUTF8 = text != nil
        return text ?? String(decoding: bytes, as: UTF8.self)
    }

    private func isReadable(_ milliseconds: Int32) throws -> Bool {
        var look = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        let count = poll(&look, 1, milliseconds)
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
        // What is left of the block before is small; the consumed part goes with its storage.
        buffer = Data(buffer) + block.prefix(count)
    }

    private func readFailure() -> Failure {
        Failure.usage("\(name) cannot be read: \(String(cString: strerror(errno))).")
    }
}
