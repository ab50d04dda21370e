internal import Foundation

/// A near-cache copy of a shared entry, with the times when it was seen there and when it ceases to be fresh.
struct NearCacheEntry {
    /// When the entry was seen in the shared cache, nanoseconds since 1970.
    let seen: Int64
    /// When the entry ceases to be fresh, nanoseconds since 1970.
    let freshUntil: Int64
    private let blob: Data

    /// The magic, and two integers of 8 bytes each, little endian.
    private static let headerSize = 18
    /// Seconds: longer than any real lifetime, and small enough to be counted in nanoseconds by an `Int64`.
    private static let longestLifetime: Double = 1_000_000_000

    /// Nil if the entry is not fresh, or if its bytes are only the first ones of an original.
    ///
    /// - Parameter seen: when the entry, with its remaining lifetime, was read from the shared cache.
    init?(_ entry: CachedData, seen: Int64) {
        // Metadata of strings and finite numbers always encodes; an entry that does not encode is not copied.
        guard !entry.isPart, entry.staleness == nil, entry.metadata.lifetime > 0, let blob = try? entry.encoded() else {
            return nil
        }
        self.seen = seen
        freshUntil = seen + Int64(min(entry.metadata.lifetime, Self.longestLifetime) * 1_000_000_000)
        self.blob = blob
    }

    var encoded: Data {
        var data = Data(capacity: Self.headerSize + blob.count)
        data.append(BlobFormat.nearCacheEntry.magic)
        data.append(littleEndian: seen)
        data.append(littleEndian: freshUntil)
        data.append(blob)
        return data
    }

    /// Nil if the data has another format, e.g. if it was stored by a pipeline without a shared cache.
    init?(encoded data: Data) {
        guard data.starts(with: BlobFormat.nearCacheEntry.magic), let seen = data.littleEndian(Int64.self, at: 2),
            let freshUntil = data.littleEndian(Int64.self, at: 10)
        else { return nil }
        self.seen = seen
        self.freshUntil = freshUntil
        blob = data.dropFirst(Self.headerSize)
    }

    /// The entry as it was copied; nil if it is damaged.
    var entry: CachedData? { CachedData(encoded: blob) }

    /// The entry with its remaining lifetime; nil if it is no longer fresh.
    func entry(at now: Int64) -> CachedData? {
        guard now < freshUntil, var entry else { return nil }
        entry.metadata.lifetime = Double(freshUntil - now) / 1_000_000_000
        return entry
    }
}
