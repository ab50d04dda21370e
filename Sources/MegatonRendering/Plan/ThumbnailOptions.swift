/// How an image is scaled to a size.
public enum ContentMode: String, Sendable, Codable, CaseIterable, CustomStringConvertible {
    /// Scales to the smallest size that covers the target.
    case aspectFill
    /// Scales to the largest size that fits within the target.
    case aspectFit

    public var description: String { ".\(rawValue)" }
}

/// Decodes a smaller image. Formats that support it are decoded directly at a fraction of their size.
public struct ThumbnailOptions: Sendable, Hashable {
    /// Pixels. The image keeps its aspect ratio.
    public var size: PixelSize
    /// How the image fills the size.
    public var contentMode: ContentMode

    /// Limits the longer side to this many pixels.
    public init(maxPixelSize: Int) {
        self.init(size: PixelSize(width: maxPixelSize, height: maxPixelSize), contentMode: .aspectFit)
    }

    /// - Parameter contentMode: whether the image fits within the size or covers it; nothing is cropped.
    public init(size: PixelSize, contentMode: ContentMode = .aspectFill) {
        self.size = size
        self.contentMode = contentMode
    }

    /// Part of the cache keys.
    package var identifier: String {
        "megaton/thumbnail?width=\(size.width),height=\(size.height),contentMode=\(contentMode.rawValue)"
    }
}
