internal import CVips

/// A picture in memory: upright, 8 bits a channel, sRGB or grey, with or without alpha.
///
/// Nuke's name for the picture type of a platform, so that its processors' signatures stay as they are.
///
/// `@unchecked Sendable`: its pixels are computed and held, and never written again; libvips counts references atomically
/// and lets several threads read one picture.
public final class PlatformImage: @unchecked Sendable {
    /// Of a picture that is in memory, upright and 8 bits a channel.
    let picture: VipsImage

    init(inMemory picture: VipsImage) { self.picture = picture }

    /// Pixels.
    public var size: PixelSize { PixelSize(width: picture.width, height: picture.height) }
    /// Channels, alpha included.
    public var bands: Int { picture.bands }
    public var hasAlpha: Bool { picture.hasAlpha }
    /// Bytes of its pixels: what it costs to keep it.
    public var byteCount: Int { picture.width * picture.height * picture.bands }
}
