internal import CVips
internal import Foundation

/// A reference to a picture of libvips: a graph of operations whose pixels come when somebody asks for them.
///
/// Stays on the thread that made it, unless its pixels are in memory; whoever opened it from a buffer keeps the buffer
/// alive.
final class VipsImage {
    let pointer: UnsafeMutablePointer<CVips.VipsImage>

    /// Takes over the caller's reference.
    init(_ pointer: UnsafeMutablePointer<CVips.VipsImage>) { self.pointer = pointer }

    deinit { megaton_vips_unref(pointer) }

    var width: Int { Int(vips_image_get_width(pointer)) }
    var height: Int { Int(vips_image_get_height(pointer)) }
    /// Of one frame: the frames of an animation lie one below the other.
    var pageHeight: Int { Int(vips_image_get_page_height(pointer)) }
    var frames: Int { height / max(1, pageHeight) }
    var bands: Int { Int(vips_image_get_bands(pointer)) }
    var hasAlpha: Bool { vips_image_hasalpha(pointer) != 0 }
    var orientation: Int { Int(vips_image_get_orientation(pointer)) }
    var bytesPerSample: Int { Int(vips_format_sizeof(vips_image_get_format(pointer))) }
    /// The size of a frame.
    var size: PixelSize { PixelSize(width: width, height: pageHeight) }

    // MARK: - Making

    /// - Parameters:
    ///   - options: of the loader, like `shrink=2`.
    ///   - failOn: which damage is an error; what is missing is grey otherwise.
    static func open(
        _ buffer: UnsafeRawBufferPointer,
        options: String = "",
        failOn: Rendition.FailOn = .error
    ) throws(VipsError) -> VipsImage {
        guard let bytes = buffer.baseAddress else { throw VipsError("there are no bytes") }
        return try make { megaton_vips_load(bytes, buffer.count, options, failOn.level, $0) }
    }

    /// A copy of pixels: rows from the top, 8 bits a channel.
    static func fromMemory(_ pixels: UnsafeRawBufferPointer, _ size: PixelSize, bands: Int) throws(VipsError)
        -> VipsImage
    {
        guard let bytes = pixels.baseAddress else { throw VipsError("there are no pixels") }
        return try make {
            megaton_vips_from_memory(bytes, pixels.count, Int32(size.width), Int32(size.height), Int32(bands), $0)
        }
    }

    /// Upright, and of exactly that size; each frame is, of an animation.
    ///
    /// - Parameter keepsProfile: the colours stay those of the picture's own profile; else they become sRGB.
    func thumbnail(_ size: PixelSize, keepsProfile: Bool = false) throws(VipsError) -> VipsImage {
        let (width, height) = (Int32(size.width), Int32(size.height))
        return try Self.make {
            keepsProfile
                ? megaton_vips_thumbnail_in_profile(pointer, width, height, $0)
                : megaton_vips_thumbnail_image(pointer, width, height, $0)
        }
    }

    /// The same picture with its pixels computed and held, so that they can be read in any order.
    func inMemory(stop: Stop) throws(VipsError) -> VipsImage {
        let heard = try tapped()
        let handler = megaton_vips_set_stop(heard.pointer, stop.pointer)
        defer { megaton_vips_clear_stop(heard.pointer, handler) }
        guard let copy = vips_image_copy_memory(heard.pointer) else { throw VipsError() }
        return VipsImage(copy)
    }

    /// The same picture, for which libvips relies on being read from the top down: what scales it keeps the rows that it has
    /// computed. Without it a picture in memory is scaled strip by strip, and the rows between are computed anew for each:
    /// from 1280 to 128 pixels that takes four times as long (8.14.1).
    func readInOrder() throws(VipsError) -> VipsImage {
        let copy = try Self.make { megaton_vips_copy(pointer, $0) }
        vips_image_set_int(copy.pointer, VIPS_META_SEQUENTIAL, 1)
        return copy
    }

    func extract(_ left: Int, _ top: Int, _ size: PixelSize) throws(VipsError) -> VipsImage {
        try Self.make {
            megaton_vips_extract(pointer, Int32(left), Int32(top), Int32(size.width), Int32(size.height), $0)
        }
    }

    /// Where the part of that size lies that catches the eye, or that has the most detail. The picture must be in
    /// memory.
    func interestingPlace(_ size: PixelSize, byEntropy: Bool) throws(VipsError) -> (left: Int, top: Int) {
        let part = try Self.make {
            megaton_vips_smartcrop(pointer, Int32(size.width), Int32(size.height), byEntropy ? 1 : 0, $0)
        }
        return (-Int(vips_image_get_xoffset(part.pointer)), -Int(vips_image_get_yoffset(part.pointer)))
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

    /// The same change to each frame.
    func mapFrames(_ change: (VipsImage) throws(VipsError) -> VipsImage) throws(VipsError) -> VipsImage {
        if frames <= 1 { return try change(self) }
        var pages: [VipsImage] = []
        for index in 0..<frames { pages.append(try change(extract(0, index * pageHeight, size))) }
        var pointers = pages.map(\.pointer)
        let roll = try Self.make { megaton_vips_join(&pointers, Int32(pages.count), $0) }
        // A copy, as metadata of what others may hold are not changed.
        let copy = try Self.make { megaton_vips_copy(roll.pointer, $0) }
        vips_image_set_int(copy.pointer, "page-height", Int32(pages[0].height))
        return withExtendedLifetime(pages) { copy }
    }

    static func make(
        _ call: (UnsafeMutablePointer<UnsafeMutablePointer<CVips.VipsImage>?>) -> Int32
    ) throws(VipsError) -> VipsImage {
        var out: UnsafeMutablePointer<CVips.VipsImage>?
        guard call(&out) == 0, let out else { throw VipsError() }
        return VipsImage(out)
    }

    /// A deadline as libvips asks for it; must outlive the evaluation.
    final class Stop {
        let pointer: UnsafeMutablePointer<megaton_vips_stop>
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

/// A call of libvips that failed, with the reason that it gave.
struct VipsError: Error {
    let text: String

    init(_ text: String = VipsMessages.text() ?? VipsRuntime.takeErrorText()) { self.text = text }
}

extension Rendition.FailOn {
    /// As libvips calls it.
    fileprivate var level: VipsFailOn {
        switch self {
        case .nothing: VIPS_FAIL_ON_NONE
        case .truncated: VIPS_FAIL_ON_TRUNCATED
        case .error: VIPS_FAIL_ON_ERROR
        case .warning: VIPS_FAIL_ON_WARNING
        }
    }
}
