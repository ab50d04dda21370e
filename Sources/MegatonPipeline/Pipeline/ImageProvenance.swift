internal import Foundation

/// What a decoded picture was made of: how long what is made of it holds, and whether it may be encoded.
struct ImageProvenance: Sendable {
    /// Of the original's bytes, or of the encoded picture's; nil where nothing made of them may be kept.
    private let known: CachedData.Metadata?
    /// Whether it was decoded from what the pipeline had encoded: another time would cost quality.
    private let isReencoded: Bool
    private let since: Date

    init(_ metadata: CachedData.Metadata?, isReencoded: Bool = false, since: Date = Date()) {
        known = metadata
        self.isReencoded = isReencoded
        self.since = since
    }

    var allowsEncoding: Bool { known != nil && !isReencoded }

    /// What the directives of a request are held against; the bytes are left out. Nil where nothing is known.
    func entry(at now: Date = Date()) -> CachedData? {
        guard var metadata = known else { return nil }
        let elapsed = max(0, now.timeIntervalSince(since))
        // What was stored once tells its age by that.
        if metadata.stored == nil { metadata.age = (metadata.age ?? 0) + elapsed }
        let left = metadata.lifetime - elapsed
        if left > 0 { metadata.lifetime = left }
        return CachedData(data: Data(), metadata: metadata, staleness: left > 0 ? nil : -left)
    }

    /// For what is made of it now, as the picture may have been in memory for long; nil where nothing may be kept.
    func metadata(at now: Date = Date()) -> CachedData.Metadata? {
        guard let known else { return nil }
        var metadata = known.inherited(at: now)
        let left = known.lifetime - now.timeIntervalSince(since)
        if left > 0 {
            metadata.lifetime = left
        } else if known.lifetime > 0 {
            metadata = metadata.aged(by: -left)
        }
        return metadata
    }
}
