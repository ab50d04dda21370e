public import Foundation

/// What the process that is killed while it fills a disk cache has written in one of its steps.
public struct CacheWriterEntry: Sendable, Equatable {
    /// How many keys there are: later steps replace the entries of earlier ones.
    public static let keyCount = 40

    public let step: Int

    public init(step: Int) { self.step = step }

    /// The entry that these bytes are, whole; nil where they are none.
    public init?(_ data: Data) {
        let bytes = data.prefix(8)
        guard bytes.count == 8 else { return nil }
        step = bytes.reversed().reduce(0) { $0 << 8 | Int($1) }
        guard (0...Self.lastStep).contains(step), self.data == data else { return nil }
    }

    public var key: String { "\(step % Self.keyCount)" }

    /// The step's number, again and again: 64 KiB to 1 MiB, each time of another size.
    public var data: Data {
        let number = withUnsafeBytes(of: UInt64(step).littleEndian) { Array($0) }
        let count = 8192 + step * 7919 % 122_880
        var data = Data(capacity: count * 8)
        for _ in 0..<count { data.append(contentsOf: number) }
        return data
    }

    /// More than any process gets to.
    private static let lastStep = 1 << 32
}
