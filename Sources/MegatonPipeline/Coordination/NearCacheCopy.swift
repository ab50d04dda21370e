internal import Foundation

/// A copy of a shared entry in the disk cache of a worker, as another process sees it.
package struct NearCacheCopy: Sendable, Codable, Equatable {
    /// Number of bytes of the data.
    package let bytes: Int
    /// Seconds since the entry was seen in the shared cache.
    package let age: Double
    /// Seconds for which it is still fresh; negative since it is stale.
    package let freshFor: Double

    /// Reads a copy and changes nothing, not even the time of its last use, which decides what is evicted. Blocks.
    ///
    /// - Parameter folder: path of the disk cache. If there is none, it has no copy.
    /// - Returns: nil if there is no copy, or if its file is damaged: the worker takes that for none, too.
    /// - Throws: `.accessDenied` if the file cannot be read.
    package static func read(_ key: CacheKey, in folder: String) throws(ImageError) -> NearCacheCopy? {
        let reading: DataCacheFolder.Reading
        do throws(DataCacheFault) {
            reading = try DataCacheFolder(path: folder).read(DataCacheFileName(key.description))
        } catch {
            throw ImageError(
                .accessDenied,
                "The file \(error.path) of the disk cache cannot be read: \(error.reason). Run the command as the user "
                    + "of the worker."
            )
        }
        guard case .found(let data, _) = reading, let copy = NearCacheEntry(encoded: data), let entry = copy.entry
        else { return nil }
        let now = Date().timeIntervalSince1970
        return NearCacheCopy(
            bytes: entry.data.count,
            age: max(0, now - Double(copy.seen) / 1_000_000_000),
            freshFor: Double(copy.freshUntil) / 1_000_000_000 - now
        )
    }
}
