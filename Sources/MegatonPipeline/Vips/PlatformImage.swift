internal import CVips
public import Foundation

/// A picture in memory: upright, 8 bits a channel, sRGB or grey, with or without alpha.
///
/// Nuke's name for the picture type of a platform, so that its processors' signatures stay as they are.
///
/// `@unchecked Sendable`: its pixels are computed and held, and never written again; libvips counts references
/// atomically and lets several threads read one picture.
public final class PlatformImage: @unchecked Sendable {
    /// Of a picture that is in memory, upright and 8 bits a channel.
    let picture: VipsImage
    /// Whether it shows all that was decoded, as it was: a processor's results do not.
    let isAsDecoded: Bool

    init(inMemory picture: VipsImage, isAsDecoded: Bool = false) {
        self.picture = picture
        self.isAsDecoded = isAsDecoded
    }

    /// A picture of pixels that are copied. Nil where they are too few or too many for the size, and where libvips
    /// cannot be used.
    ///
    /// - Parameters:
    ///   - width: pixels.
    ///   - height: pixels.
    ///   - bands: 1 is grey, 2 grey and alpha, 3 sRGB, 4 sRGB and alpha, which is not premultiplied.
    ///   - pixels: rows from the top, a byte for each band of each pixel.
    public convenience init?(width: Int, height: Int, bands: Int, pixels: Data) {
        let (area, isTooMuch) = width.multipliedReportingOverflow(by: height)
        guard width > 0, height > 0, !isTooMuch, area <= Int(Int32.max), (1...4).contains(bands),
            pixels.count == area * bands
        else { return nil }
        do {
            try VipsRuntime.start()
            let picture = try pixels.withUnsafeBytes {
                try VipsImage.fromMemory($0, PixelSize(width: width, height: height), bands: bands)
            }
            // A stop that never comes: what is copied is in memory.
            let stop = VipsImage.Stop(RenderDeadline(.now + .seconds(3600)))
            self.init(inMemory: try withExtendedLifetime(stop) { try picture.inMemory(stop: stop) })
        } catch {
            return nil
        }
    }

    /// Pixels.
    public var size: PixelSize { PixelSize(width: picture.width, height: picture.height) }
    /// Channels, alpha included.
    public var bands: Int { picture.bands }
    public var hasAlpha: Bool { picture.hasAlpha }
    /// Bytes of its pixels: what it costs to keep it.
    public var byteCount: Int { picture.width * picture.height * picture.bands }

    /// A copy of the pixels: rows from the top, a byte for each band of each pixel.
    public func pixels() -> Data {
        var length = 0
        guard let bytes = vips_image_write_to_memory(picture.pointer, &length) else { return Data() }
        return Data(bytesNoCopy: bytes, count: length, deallocator: .custom { bytes, _ in g_free(bytes) })
    }
}
