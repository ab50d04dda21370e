/// What a header tells before anything is decoded.
public struct ImageProbe: Sendable, Equatable {
    public var type: AssetType
    /// Pixels as stored, before orientation.
    public var width: Int
    /// Pixels as stored, before orientation.
    public var height: Int
    /// Channels, alpha included.
    public var bands: Int
    /// Frames of an animation, or images of a sequence.
    public var frames: Int
    /// EXIF orientation, 1 to 8 (CIPA DC-008 section 4.6.4).
    public var orientation: Int
    /// Progressive JPEG or interlaced PNG: the whole picture must be held in memory to decode it.
    public var isProgressive: Bool
    /// Bytes of one channel of one pixel, as decoded: 2 for 16 bits.
    public var sampleBytes = 1
    /// Whether its colours are red, green and blue with a profile of their own.
    public var hasRGBProfile = false

    /// Whether its frames are one picture that moves; those of AVIF, HEIC and TIFF are pictures of their own.
    public var isAnimated: Bool { frames > 1 && (type == .gif || type == .webp) }

    /// Width and height as they are seen.
    public var uprightSize: PixelSize {
        orientation >= 5 ? PixelSize(width: height, height: width) : PixelSize(width: width, height: height)
    }
}

/// A width and a height, in pixels.
public struct PixelSize: Sendable, Hashable, CustomStringConvertible {
    public var width: Int
    public var height: Int

    public init(width: Int, height: Int) {
        self.width = width
        self.height = height
    }

    /// `640x480`
    public var description: String { "\(width)x\(height)" }
}
