internal import Foundation

/// Provenance of a decoded image: decides how long results made from it are valid, and whether it may be encoded.
struct ImageProvenance: Sendable {
    /// Metadata of the original, or of the encoded image; nil if nothing made from them may be stored.
    private let known: CachedData.Metadata?
    /// Whether the image was decoded from bytes that the pipeline encoded: encoding it again would cost quality.
    private let isReencoded: Bool
    private let since: Date

    /// - Parameter since: when the lifetime of the metadata was counted.
    init(_ metadata: CachedData.Metadata?, isReencoded: Bool = false, since: Date = Date()) {
        known = metadata
        self.isReencoded = isReencoded
        self.since = since
    }

    var allowsEncoding: Bool { known != nil && !isReencoded }

    /// Entry without bytes, for the cache directives of a request. Nil if nothing is known.
    func entry(at now: Date = Date()) -> CachedData? {
        guard var metadata = known else { return nil }
        let elapsed = max(0, now.timeIntervalSince(since))
        // The age of a stored entry follows from the time at which it was stored.
        if metadata.stored == nil { metadata.age = (metadata.age ?? 0) + elapsed }
        let left = metadata.lifetime - elapsed
        if left > 0 { metadata.lifetime = left }
        return CachedData(data: Data(), metadata: metadata, staleness: left > 0 ? nil : -left)
    }

    /// Metadata for a result made now. The image may have been in memory for long, which reduces the lifetime. Nil if
    /// nothing may be stored.
    func metadata(at now: Date = Date()) -> CachedData.Metadata? {
        known?.elapsed(now.timeIntervalSince(since)).inherited(at: now)
    }
}
