internal import Foundation

/// A near-cache copy of a shared entry, with the times when it was seen there and when it ceases to be fresh.
struct NearCacheEntry {
    /// When the entry was seen in the shared cache, nanoseconds since 1970.
    let seen: Int64
    /// When the entry ceases to be fresh, nanoseconds since 1970.
    let freshUntil: Int64
    private let blob: Data

    /// `L1`, and two integers of 8 bytes each.
    private static let headerSize = 18
    /// Seconds: longer than any real lifetime, and small enough to be counted in nanoseconds by an `Int64`.
    private static let longestLifetime: Double = 1_000_000_000

    /// Nil if the entry is not fresh.
    ///
    /// - Parameter seen: when the entry, with its remaining lifetime, was read from the shared cache.
    init?(_ entry: CachedData, seen: Int64) {
        // Metadata of strings and finite numbers always encodes; an entry that does not encode is not copied.
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

    /// Nil if the data has another format, e.g. if it was stored by a pipeline without a shared cache.
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

    /// The entry with its remaining lifetime; nil if it is no longer fresh.
    func entry(at now: Int64) -> CachedData? {
        guard now < freshUntil, var entry = CachedData(encoded: blob) else { return nil }
        entry.metadata.lifetime = Double(freshUntil - now) / 1_000_000_000
        return entry
    }
}
