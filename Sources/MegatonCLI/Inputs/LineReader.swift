import Foundation

/// Reads lines block by block.
struct LineReader {
    private let handle: FileHandle
    private let name: String
    private var buffer = Data()
    private var isAtEnd = false
    private var number = 0

    private static let blockSize = 256 * 1024
    /// Bytes of one line.
    private static let lineLimit = 2 * 1024 * 1024

    init(_ handle: FileHandle, name: String) {
        self.handle = handle
        self.name = name
    }

    /// Where the last line stood: `list.txt:17`.
    var origin: String { "\(name):\(number)" }

    /// Nil at the end.
    ///
    /// - Throws: `Failure` where the file cannot be read, or a line is too long.
    mutating func next() throws -> String? {
        while true {
            if let end = buffer.firstIndex(of: 10) {
                let line = buffer[buffer.startIndex..<end]
                buffer = buffer[(end + 1)...]
                number += 1
                return String(decoding: line, as: UTF8.self)
            }
            if isAtEnd {
                guard !buffer.isEmpty else { return nil }
                defer { buffer = Data() }
                number += 1
                return String(decoding: buffer, as: UTF8.self)
            }
            guard buffer.count <= Self.lineLimit else {
                throw Failure.usage("\(name): line \(number + 1) is longer than \(Self.lineLimit) bytes.")
            }
            do {
                let block = try handle.read(upToCount: Self.blockSize) ?? Data()
                // What is left of the block before is small; the consumed part goes with its storage.
                buffer = Data(buffer) + block
                isAtEnd = block.isEmpty
            } catch {
                throw Failure.usage("\(name) cannot be read: \(error.localizedDescription)")
            }
        }
    }
}
