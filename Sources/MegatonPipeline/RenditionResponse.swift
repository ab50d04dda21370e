public import Foundation

/// A finished rendition, and where it came from.
public struct RenditionResponse: Sendable {
    /// Who made it.
    public enum Source: String, Sendable, Codable {
        /// This request did.
        case render
        /// A cache had it, or somebody else was making it.
        case cache
    }

    public let rendition: Rendition
    /// The encoded picture.
    public let data: Data
    /// Pixels.
    public let size: PixelSize
    public let source: Source
    /// SHA-256 of the data, hex, where it is known already.
    public let checksum: String?
    /// The ``DataCaching/layerName`` of the cache that had it, as of ``ImageResponse/cacheLayer``; nil where it was made.
    public let cacheLayer: String?
    /// Remarks on parts of its source that could not be used as they are, in sentences for people: damage in spite of which it was
    /// rendered, a color profile that does not fit. At most ``RenderNotes/maximumCount``.
    public let notes: [String]
}
