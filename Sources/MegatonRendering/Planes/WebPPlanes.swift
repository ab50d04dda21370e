internal import CWebP
internal import Foundation

/// Encodes planes of 4:2:0 as WebP.
enum WebPPlanes {
    /// JPEG uses the full range of values, WebP the video range of BT.601 (RFC 6386 section 9.2, JFIF 1.02).
    private static let luma = (0...255).map { UInt8((16 + Double($0) * 219 / 255).rounded()) }
    private static let colour = (0...255).map { UInt8((128 + (Double($0) - 128) * 224 / 255).rounded()) }

    /// Encodes the planes of an upright image, 4:2:0 or gray.
    ///
    /// - Returns: nil if libwebp fails, or if the deadline stopped it.
    static func encode(_ picture: PlanarImage, _ rendition: Rendition, _ deadline: RenderDeadline) -> Data? {
        let size = picture.size
        guard picture.sampling == .s420 || picture.sampling == .grey else { return nil }
        guard let y = picture.planes[0].mapped(luma) else { return nil }
        var colours: [Plane] = []
        if picture.sampling == .grey {
            let (width, height) = ((size.width + 1) / 2, (size.height + 1) / 2)
            guard let none = Plane(width: width, height: height, filledWith: 128) else { return nil }
            colours = [none, none]
        } else {
            for plane in picture.planes[1...] {
                guard let mapped = plane.mapped(colour) else { return nil }
                colours.append(mapped)
            }
        }
        var bytes: UnsafeMutablePointer<UInt8>?
        var length = 0
        let code = withExtendedLifetime((deadline, y, colours)) {
            var stop = megaton_webp_stop(
                asks: { context in
                    guard let context else { return 0 }
                    return Unmanaged<RenderDeadline>.fromOpaque(context).takeUnretainedValue().mustEnd ? 1 : 0
                },
                context: Unmanaged.passUnretained(deadline).toOpaque()
            )
            return megaton_webp_encode(
                y.bytes,
                Int32(y.stride),
                colours[0].bytes,
                colours[1].bytes,
                Int32(colours[0].stride),
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
