internal import CWebP
internal import Foundation

/// Encodes planes of 4:2:0 as WebP.
enum WebPPlanes {
    /// Encodes the planes of an upright image, 4:2:0 or gray, in the range of video.
    ///
    /// - Returns: nil if libwebp fails, or if the deadline stopped it.
    static func encode(_ image: PlanarImage, _ rendition: Rendition, _ deadline: RenderDeadline) -> Data? {
        let size = image.size
        guard image.sampling == .s420 || image.sampling == .gray else { return nil }
        let y = image.planes[0]
        var colors = Array(image.planes[1...])
        if image.sampling == .gray {
            let (width, height) = ((size.width + 1) / 2, (size.height + 1) / 2)
            guard let none = Plane(width: width, height: height, filledWith: 128) else { return nil }
            colors = [none, none]
        }
        var bytes: UnsafeMutablePointer<UInt8>?
        var length = 0
        let code = withExtendedLifetime((deadline, y, colors)) {
            var stop = megaton_webp_stop(
                asks: RenderDeadline.isExpired,
                context: Unmanaged.passUnretained(deadline).toOpaque()
            )
            return megaton_webp_encode(
                y.bytes,
                Int32(y.stride),
                colors[0].bytes,
                colors[1].bytes,
                Int32(colors[0].stride),
                Int32(size.width),
                Int32(size.height),
                Float(rendition.quality),
                Int32(rendition.effort ?? rendition.format.defaultEffort),
                &stop,
                &bytes,
                &length
            )
        }
        guard code == 0, let bytes else { return nil }
        return Data(bytesNoCopy: bytes, count: length, deallocator: .custom { bytes, _ in WebPFree(bytes) })
    }
}
