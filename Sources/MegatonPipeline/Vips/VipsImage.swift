internal import CVips
internal import Foundation

/// A reference to a picture of libvips: a graph of operations whose pixels come when somebody asks for them.
///
/// Stays on the thread that made it; whoever opened it from a buffer keeps the buffer alive.
final class VipsImage {
    private let pointer: UnsafeMutablePointer<CVips.VipsImage>

    private init(_ pointer: UnsafeMutablePointer<CVips.VipsImage>) { self.pointer = pointer }

    deinit { megaton_vips_unref(pointer) }

    var width: Int { Int(vips_image_get_width(pointer)) }
    var height: Int { Int(vips_image_get_height(pointer)) }
    var bands: Int { Int(vips_image_get_bands(pointer)) }
    var hasAlpha: Bool { vips_image_hasalpha(pointer) != 0 }
    var orientation: Int { Int(vips_image_get_orientation(pointer)) }

    func integer(_ name: String, default fallback: Int) -> Int {
        Int(megaton_vips_get_int(pointer, name, Int32(fallback)))
    }

    // MARK: - Making

    /// - Parameter options: of the loader, like `shrink=2`.
    static func open(_ buffer: UnsafeRawBufferPointer, options: String = "") throws(VipsError) -> VipsImage {
        try make { megaton_vips_load(buffer.baseAddress!, buffer.count, options, $0) }
    }

    /// Upright, in sRGB, and of exactly that size.
    func thumbnail(_ size: PixelSize) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_thumbnail_image(pointer, Int32(size.width), Int32(size.height), $0) }
    }

    /// The same picture with its pixels computed and held, without its profile: they are sRGB by now.
    func inMemory(stop: Stop) throws(VipsError) -> VipsImage {
        megaton_vips_set_stop(pointer, stop.pointer)
        guard let copy = vips_image_copy_memory(pointer) else { throw VipsError() }
        let image = VipsImage(copy)
        vips_image_remove(copy, "icc-profile-data")
        return image
    }

    func crop(centre size: PixelSize) throws(VipsError) -> VipsImage {
        try Self.make {
            megaton_vips_extract(
                pointer,
                Int32((width - size.width) / 2),
                Int32((height - size.height) / 2),
                Int32(size.width),
                Int32(size.height),
                $0
            )
        }
    }

    func pad(to size: PixelSize, background: [Double]) throws(VipsError) -> VipsImage {
        try Self.make {
            megaton_vips_pad(
                pointer,
                Int32(size.width),
                Int32(size.height),
                background,
                Int32(background.count),
                $0
            )
        }
    }

    func flatten(background: [Double]) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_flatten(pointer, background, Int32(background.count), $0) }
    }

    /// 8 bits a channel: sRGB, or grey where it was grey.
    func eightBit() throws(VipsError) -> VipsImage {
        var image = self
        let interpretation = vips_image_get_interpretation(pointer)
        let isGrey = interpretation == VIPS_INTERPRETATION_B_W
        if interpretation != VIPS_INTERPRETATION_sRGB && !isGrey {
            image = try Self.make { megaton_vips_to_srgb(pointer, $0) }
        }
        if vips_image_get_format(image.pointer) != VIPS_FORMAT_UCHAR {
            let wide = image
            image = try Self.make { megaton_vips_cast_uchar(wide.pointer, $0) }
        }
        return image
    }

    // MARK: - Encoding

    /// Runs the graph. The bytes are libvips' own; they are not copied.
    func encode(_ format: Rendition.Format, quality: Int, stop: Stop) throws(VipsError) -> Data {
        megaton_vips_set_stop(pointer, stop.pointer)
        var bytes: UnsafeMutableRawPointer?
        var length = 0
        let result =
            switch format {
            case .jpeg: megaton_vips_jpegsave(pointer, Int32(quality), &bytes, &length)
            case .png: megaton_vips_pngsave(pointer, &bytes, &length)
            case .webp: megaton_vips_webpsave(pointer, Int32(quality), &bytes, &length)
            case .avif: megaton_vips_avifsave(pointer, Int32(quality), &bytes, &length)
            }
        guard result == 0, let bytes else { throw VipsError() }
        return Data(bytesNoCopy: bytes, count: length, deallocator: .custom { bytes, _ in g_free(bytes) })
    }

    private static func make(
        _ call: (UnsafeMutablePointer<UnsafeMutablePointer<CVips.VipsImage>?>) -> Int32
    ) throws(VipsError) -> VipsImage {
        var out: UnsafeMutablePointer<CVips.VipsImage>?
        guard call(&out) == 0, let out else { throw VipsError() }
        return VipsImage(out)
    }

    /// A deadline as libvips asks for it; must outlive the evaluation.
    final class Stop {
        fileprivate let pointer: UnsafeMutablePointer<megaton_vips_stop>
        /// Held for the C side, which only borrows it.
        private let deadline: RenderDeadline

        init(_ deadline: RenderDeadline) {
            self.deadline = deadline
            pointer = .allocate(capacity: 1)
            pointer.initialize(
                to: megaton_vips_stop(
                    asks: { context in
                        guard let context else { return 0 }
                        return Unmanaged<RenderDeadline>.fromOpaque(context).takeUnretainedValue().mustEnd ? 1 : 0
                    },
                    context: Unmanaged.passUnretained(deadline).toOpaque()
                )
            )
        }

        deinit { pointer.deallocate() }
    }
}

/// A call of libvips that failed, with the hint from its error buffer.
struct VipsError: Error {
    let text = VipsRuntime.takeErrorText()
}
