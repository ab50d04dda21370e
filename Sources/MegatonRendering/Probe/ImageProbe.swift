/// Facts from an image's header, known before any pixel is decoded.
package struct ImageProbe: Sendable, Equatable {
    package var type: AssetType
    /// Pixels as stored, before orientation.
    var width: Int
    /// Pixels as stored, before orientation.
    var height: Int
    /// Channels, alpha included.
    var bands: Int
    /// Frames of an animation, or images of a sequence.
    var frames: Int
    /// EXIF orientation, 1 to 8 (CIPA DC-008 section 4.6.4).
    var orientation: Int
    /// Whether it is a progressive JPEG or an interlaced PNG: decoding holds the whole image in memory.
    var isProgressive: Bool
    /// Bytes of one channel of one pixel, as decoded: 2 for 16 bits.
    var sampleBytes = 1
    /// Whether its colors are RGB with an embedded profile.
    var hasRGBProfile = false
    /// The layout of its planes, if the planes engine can work on them: a JPEG whose colors are sRGB or gray.
    var planes: ChromaSampling?
    /// See ``RenditionResponse/notes``.
    var notes: [String] = []

    /// Memory and work that decoding a HEIF or AVIF file takes.
    var heif: HEIFDemand?

    /// Whether its frames form an animation; those of AVIF, HEIC and TIFF are separate images.
    package var isAnimated: Bool { frames > 1 && (type == .gif || type == .webp) }

    /// Width and height after orientation, in pixels.
    var uprightSize: PixelSize {
        orientation >= 5 ? PixelSize(width: height, height: width) : PixelSize(width: width, height: height)
    }
}
