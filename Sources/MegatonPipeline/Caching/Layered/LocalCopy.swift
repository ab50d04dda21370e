internal import Foundation

/// What a local cache has of an entry of a shared one: with when it was seen there, and until when it was fresh by then.
struct LocalCopy {
    /// Nanoseconds since 1970.
    let seen: Int64
    /// Nanoseconds since 1970.
    let freshUntil: Int64
    private let blob: Data

    /// `L1`, and two numbers of 8 bytes.
    private static let headerSize = 18
    /// Seconds: longer than anything lasts, and few enough for a number of nanoseconds.
    private static let longestLifetime: Double = 1_000_000_000

    /// Nil for an entry that is not fresh.
    ///
    /// - Parameter seen: when the lifetime that the entry has left was told.
    init?(_ entry: CachedData, seen: Int64) {
        // Metadata of strings and finite numbers always encodes; an entry that does not is not copied.
        guard entry.staleness == nil, entry.metadata.lifetime > 0, let blob = try? entry.encoded() else { return nil }
        self.seen = seen
        freshUntil = seen + Int64(min(entry.metadata.lifetime, Self.longestLifetime) * 1_000_000_000)
        self.blob = blob
    }

    var encoded: Data {
        var data = Data(capacity: Self.headerSize + blob.count)
        data.append(contentsOf: "L1".utf8)
        for number in [seen, freshUntil] {
            withUnsafeBytes(of: number.littleEndian) { data.append(contentsOf: $0) }
        }
        data.append(blob)
        return data
    }

    /// Nil where it is none, as what a pipeline without a shared cache has left.
    init?(encoded data: Data) {
        guard data.count >= Self.headerSize, data.starts(with: "L1".utf8) else { return nil }
        func number(_ offset: Int) -> Int64 {
            let bytes = data.dropFirst(offset).prefix(8)
            return Int64(bitPattern: bytes.enumerated().reduce(0) { $0 | UInt64($1.element) << (8 * $1.offset) })
        }
        seen = number(2)
        freshUntil = number(10)
        blob = data.dropFirst(Self.headerSize)
    }

    /// With what is left of its lifetime; nil where it is no longer fresh.
    func entry(at now: Int64) -> CachedData? {
        guard now < freshUntil, var entry = CachedData(encoded: blob) else { return nil }
        entry.metadata.lifetime = Double(freshUntil - now) / 1_000_000_000
        return entry
    }
}
