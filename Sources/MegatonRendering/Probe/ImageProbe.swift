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
    /// Whether one of its channels is alpha.
    var hasAlpha = false
    /// The layout of its planes, if the planes engine can work on them: a JPEG whose colors are sRGB or gray.
    var planes: ChromaSampling?
    /// See ``RenditionResponse/notes``.
    var notes: [String] = []

    /// Memory and work that decoding a HEIF or AVIF file takes.
    var heif: HEIFDemand?

    /// Whether its frames form an animation; those of AVIF, HEIC and TIFF are separate images.
    package var isAnimated: Bool { frames > 1 && (type == .gif || type == .webp) }

    /// Width and height after orientation, in pixels.
    package var uprightSize: PixelSize {
        orientation >= 5 ? PixelSize(width: height, height: width) : PixelSize(width: width, height: height)
    }
}

/// The planes of a JPEG: luma, and chroma at full or half resolution (ITU-T T.81, annex A.1.1).
enum ChromaSampling: Sendable, Hashable {
    /// Luma alone.
    case gray
    case s444, s422, s420

    /// Luma samples for each chroma sample, in a row.
    var horizontal: Int { self == .s422 || self == .s420 ? 2 : 1 }
    /// Luma samples for each chroma sample, in a column.
    var vertical: Int { self == .s420 ? 2 : 1 }
    var planes: Int { self == .gray ? 1 : 3 }
    /// Samples for each pixel, summed over all planes.
    var samples: Double { self == .gray ? 1 : 1 + 2 / Double(horizontal * vertical) }
}
