internal import Foundation
internal import MegatonCore
internal import MegatonPipeline

/// A job that has ended lately, with a placeholder of its image in a few bytes: for people who watch a queue.
package struct RecentThumbnail: Sendable, Codable, Equatable {
    package let id: String
    /// Nil for a job without one.
    package let batch: String?
    /// The URL of the source without its secrets.
    package let source: String
    /// Pixels of the source, upright.
    package let width: Int
    package let height: Int
    /// ThumbHash of the source in Base64.
    package let thumbHash: String
    /// Seconds since 1970 at which the job ended, by the worker's clock; for display only.
    package let time: Int

    /// Number of thumbnails that a queue keeps.
    package static let maximumCount = 24
    /// Characters of a source.
    private static let maximumSource = 300
    /// Bytes of a stored thumbnail that are read.
    private static let maximumSize = 4096
    /// Characters of a ThumbHash, which has at most 25 bytes.
    private static let maximumHash = 36
    private static let sides = 1...1_000_000

    /// Nil if the job is not done, or its outcome has no ThumbHash.
    init?(_ outcome: JobOutcome, batch: String, time: Int = Int(Date().timeIntervalSince1970)) {
        guard outcome.status == .done, let id = outcome.id, let facts = outcome.facts, let hash = facts.thumbHash
        else { return nil }
        self.id = id
        self.batch = batch.isEmpty ? nil : batch
        source = Redaction.url(outcome.source).truncated(to: Self.maximumSource)
        // The orientations from 5 on swap the sides.
        (width, height) = facts.orientation < 5 ? (facts.width, facts.height) : (facts.height, facts.width)
        thumbHash = hash.base64EncodedString()
        self.time = time
    }

    /// Nil if another program wrote the text.
    init?(stored text: String) {
        guard text.utf8.count <= Self.maximumSize,
            let stored = try? JSONDecoder().decode(Self.self, from: Data(text.utf8)),
            Self.sides.contains(stored.width), Self.sides.contains(stored.height),
            stored.thumbHash.utf8.count <= Self.maximumHash
        else { return nil }
        self = stored
    }
}
