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
