public import Foundation

/// A finished rendition, and how it was obtained.
public struct RenditionResponse: Sendable {
    /// How the rendition was obtained.
    public enum Source: String, Sendable, Codable {
        /// This request rendered it.
        case render
        /// A cache had it, or another request was rendering it.
        case cache
    }

    public let rendition: Rendition
    /// The encoded image.
    public let data: Data
    /// Pixels.
    public let size: PixelSize
    public let source: Source
    /// SHA-256 of the data in hex, if it is already known.
    public let checksum: String?
    /// The ``DataCaching/layerName`` of the cache that had it, as in ``ImageResponse/cacheLayer``; nil if it was
    /// rendered.
    public let cacheLayer: String?
    /// Notes on problems of the source, in sentences for people: damage in spite of which it was rendered, or a color
    /// profile that does not fit. At most ``RenderNotes/maximumCount``.
    public let notes: [String]
}
