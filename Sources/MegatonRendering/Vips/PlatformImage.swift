internal import CVips
public import Foundation

/// An image in memory: upright, 8 bits for each channel, sRGB or gray, with or without alpha.
///
/// Named after Nuke's platform image type, so that the signatures of its processors stay the same.
///
/// `@unchecked Sendable`: pixels are computed once and never written again. libvips counts references atomically, and
/// several threads may read one image.
public final class PlatformImage: @unchecked Sendable {
    /// The wrapped image: in memory, upright, 8 bits for each channel.
    package let vipsImage: VipsImage
    /// Whether it shows the decoded image unchanged; false for the results of processors.
    package let isAsDecoded: Bool

    init(inMemory vipsImage: VipsImage, isAsDecoded: Bool = false) {
        self.vipsImage = vipsImage
        self.isAsDecoded = isAsDecoded
    }

    /// Copies pixels into a new image.
    ///
    /// - Parameters:
    ///   - width: Width in pixels.
    ///   - height: Height in pixels.
    ///   - bands: 1 is gray, 2 gray and alpha, 3 sRGB, 4 sRGB and alpha. Alpha is not premultiplied.
    ///   - pixels: Rows from the top, one byte for each band of each pixel.
    /// - Returns: nil if the number of bytes does not match the size, or if libvips cannot be used.
    public convenience init?(width: Int, height: Int, bands: Int, pixels: Data) {
        let (area, isTooMuch) = width.multipliedReportingOverflow(by: height)
        guard width > 0, height > 0, !isTooMuch, area <= Int(Int32.max), (1...4).contains(bands),
            pixels.count == area * bands
        else { return nil }
        do {
            try VipsRuntime.start()
            let vipsImage = try pixels.withUnsafeBytes {
                try VipsImage.fromMemory($0, PixelSize(width: width, height: height), bands: bands)
            }
            // This deadline is never reached: copied pixels are in memory already.
            let stop = VipsImage.Stop(RenderDeadline(.now + .seconds(3600)))
            self.init(inMemory: try withExtendedLifetime(stop) { try vipsImage.inMemory(stop: stop) })
        } catch {
            return nil
        }
    }

    /// Size in pixels.
    public var size: PixelSize { PixelSize(width: vipsImage.width, height: vipsImage.height) }
    /// Number of channels, including alpha.
    public var bands: Int { vipsImage.bands }
    /// Whether the last band is transparency.
    public var hasAlpha: Bool { vipsImage.hasAlpha }
    /// Memory that the pixels take, in bytes.
    public var byteCount: Int { vipsImage.width * vipsImage.height * vipsImage.bands }

    /// Copies the pixels: rows from the top, one byte for each band of each pixel.
    public func pixels() -> Data {
        var length = 0
        guard let bytes = vips_image_write_to_memory(vipsImage.pointer, &length) else { return Data() }
        return Data(bytesNoCopy: bytes, count: length, deallocator: .custom { bytes, _ in g_free(bytes) })
    }
}
