/// What a header tells before anything is decoded.
struct ImageProbe: Sendable, Equatable {
    var type: AssetType
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
    /// Progressive JPEG or interlaced PNG: the whole picture must be held in memory to decode it.
    var isProgressive: Bool
    /// Bytes of one channel of one pixel, as decoded: 2 for 16 bits.
    var sampleBytes = 1
    /// Whether its colours are red, green and blue with a profile of their own.
    var hasRGBProfile = false
    /// The planes that it is stored in, where they can be worked on as they are: in a JPEG with colours of sRGB, or grey.
    var planes: ChromaSampling?
    /// See ``RenditionResponse/notes``.
    var notes: [String] = []

    /// The memory and work that a HEIF or AVIF file needs.
    var heif: HEIFDemand?

    /// Whether its frames are one picture that moves; those of AVIF, HEIC and TIFF are pictures of their own.
    var isAnimated: Bool { frames > 1 && (type == .gif || type == .webp) }

    /// Width and height as they are seen.
    var uprightSize: PixelSize {
        orientation >= 5 ? PixelSize(width: height, height: width) : PixelSize(width: width, height: height)
    }
}
