public import Foundation

/// An entry that a process writes in one step, while it fills a disk cache and is killed.
public struct CacheWriterEntry: Sendable, Equatable {
    /// Number of keys: later steps replace the entries of earlier ones.
    public static let keyCount = 40

    public let step: Int

    public init(step: Int) { self.step = step }

    /// Parses a whole entry; nil if these bytes are none.
    public init?(_ data: Data) {
        let bytes = data.prefix(8)
        guard bytes.count == 8 else { return nil }
        step = bytes.reversed().reduce(0) { $0 << 8 | Int($1) }
        guard (0...Self.lastStep).contains(step), self.data == data else { return nil }
    }

    public var key: String { "\(step % Self.keyCount)" }

    /// The step's number repeated: 64 KiB to 1 MiB, with a different size in each step.
    public var data: Data {
        let number = withUnsafeBytes(of: UInt64(step).littleEndian) { Array($0) }
        let count = 8192 + step * 7919 % 122_880
        var data = Data(capacity: count * 8)
        for _ in 0..<count { data.append(contentsOf: number) }
        return data
    }

    /// More than any process reaches.
    private static let lastStep = 1 << 32
}
