internal import CVips
internal import Foundation

/// A reference to a libvips image: a graph of operations that is evaluated on demand.
///
/// Stays on the thread that made it, unless its pixels are in memory. The code that opened it from a buffer must keep
/// the buffer alive.
package final class VipsImage {
    let pointer: UnsafeMutablePointer<CVips.VipsImage>

    /// Takes ownership of the caller's reference.
    init(_ pointer: UnsafeMutablePointer<CVips.VipsImage>) { self.pointer = pointer }

    deinit { megaton_vips_unref(pointer) }

    package var width: Int { Int(vips_image_get_width(pointer)) }
    package var height: Int { Int(vips_image_get_height(pointer)) }
    /// Height of one frame, in pixels: the frames of an animation are stacked vertically.
    var pageHeight: Int { Int(vips_image_get_page_height(pointer)) }
    var frames: Int { height / max(1, pageHeight) }
    package var bands: Int { Int(vips_image_get_bands(pointer)) }
    package var hasAlpha: Bool { vips_image_hasalpha(pointer) != 0 }
    var orientation: Int { Int(vips_image_get_orientation(pointer)) }
    var bytesPerSample: Int { Int(vips_format_sizeof(vips_image_get_format(pointer))) }
    /// The size of a frame.
    var size: PixelSize { PixelSize(width: width, height: pageHeight) }

    // MARK: - Making

    /// - Parameters:
    ///   - options: Loader options, e.g. `shrink=2`.
    ///   - failOn: The least damage that is an error; tolerated gaps are filled with gray.
    static func open(
        _ buffer: UnsafeRawBufferPointer,
        options: String = "",
        failOn: Rendition.FailOn = .error
    ) throws(VipsError) -> VipsImage {
        guard let bytes = buffer.baseAddress else { throw VipsError("there are no bytes") }
        return try make { megaton_vips_load(bytes, buffer.count, options, failOn.level, $0) }
    }

    /// Copies pixels: rows from the top, 8 bits for each channel.
    static func fromMemory(_ pixels: UnsafeRawBufferPointer, _ size: PixelSize, bands: Int) throws(VipsError)
        -> VipsImage
    {
        guard let bytes = pixels.baseAddress else { throw VipsError("there are no pixels") }
        return try make {
            megaton_vips_from_memory(bytes, pixels.count, Int32(size.width), Int32(size.height), Int32(bands), $0)
        }
    }

    /// Turns the image upright and scales it, or each of its frames, to exactly this size.
    ///
    /// - Parameter keepsProfile: Whether colors stay in the embedded profile; otherwise they are converted to sRGB.
    package func thumbnail(_ size: PixelSize, keepsProfile: Bool = false) throws(VipsError) -> VipsImage {
        let (width, height) = (Int32(size.width), Int32(size.height))
        return try Self.make {
            keepsProfile
                ? megaton_vips_thumbnail_in_profile(pointer, width, height, $0)
                : megaton_vips_thumbnail_image(pointer, width, height, $0)
        }
    }

    /// As `thumbnail`, for a pass: in its colors and its light.
    ///
    /// Scales each frame of an animation by itself, in the order of the file. Scaled as one image, neighboring frames
    /// would mix at their edges, and an orientation would turn the stack of all frames.
    func thumbnail(_ size: PixelSize, in pass: RenderPlan.Pass, _ stop: Stop) throws(VipsError) -> VipsImage {
        guard frames > 1, size != self.size || orientation > 1 else { return try scaled(to: size, in: pass) }
        return try mapFrames { frame throws(VipsError) in try frame.scaled(to: size, in: pass).inMemory(stop: stop) }
    }

    private func scaled(to size: PixelSize, in pass: RenderPlan.Pass) throws(VipsError) -> VipsImage {
        // A size that needs no scaling needs no conversion to linear light and back, which is no identity.
        let upright = EXIFOrientation(orientation).turned(self.size)
        let changesOneSide = (size.width == upright.width) != (size.height == upright.height)
        if hasAlpha && changesOneSide && orientation <= 1 && !pass.isLinear {
            return try stretched(size, upright, keepsProfile: pass.keepsProfile)
        }
        guard pass.isLinear, size != upright else { return try thumbnail(size, keepsProfile: pass.keepsProfile) }
        return try Self.make { megaton_vips_thumbnail_linear(pointer, Int32(size.width), Int32(size.height), $0) }
    }

    /// libvips multiplies colors by alpha only if both sides change (8.14.1): the colors of transparent pixels would
    /// show. Images that are turned, which libvips would copy as a whole before, and those in linear light are left to
    /// it.
    private func stretched(_ size: PixelSize, _ upright: PixelSize, keepsProfile: Bool) throws(VipsError) -> VipsImage {
        let across = Double(size.width) / Double(upright.width)
        let down = Double(size.height) / Double(upright.height)
        return try thumbnail(upright, keepsProfile: keepsProfile).eightBit().premultiplied { colors throws(VipsError) in
            try Self.make { megaton_vips_resize(colors.pointer, across, down, $0) }
        }
    }

    /// Computes the pixels and keeps them in memory, so that they can be read in any order.
    func inMemory(stop: Stop) throws(VipsError) -> VipsImage {
        let heard = try tapped()
        let handler = megaton_vips_set_stop(heard.pointer, stop.pointer)
        defer { megaton_vips_clear_stop(heard.pointer, handler) }
        guard let copy = vips_image_copy_memory(heard.pointer) else { throw VipsError() }
        return VipsImage(copy)
    }

    /// Marks the image as sequential, so that scaling operations cache the rows that they have computed. Otherwise
    /// libvips scales an image in memory strip by strip and computes the rows between strips again for each one:
    /// scaling from 1280 to 128 pixels takes four times as long (8.14.1).
    func readInOrder() throws(VipsError) -> VipsImage {
        let copy = try Self.make { megaton_vips_copy(pointer, $0) }
        vips_image_set_int(copy.pointer, VIPS_META_SEQUENTIAL, 1)
        return copy
    }

    package func extract(_ left: Int, _ top: Int, _ size: PixelSize) throws(VipsError) -> VipsImage {
        try Self.make {
            megaton_vips_extract(pointer, Int32(left), Int32(top), Int32(size.width), Int32(size.height), $0)
        }
    }

    /// The top left corner of the most salient region of this size, or of the one with the most detail. The image must
    /// be in memory.
    package func interestingPlace(_ size: PixelSize, byEntropy: Bool) throws(VipsError) -> (left: Int, top: Int) {
        let part = try Self.make {
            megaton_vips_smartcrop(pointer, Int32(size.width), Int32(size.height), byEntropy ? 1 : 0, $0)
        }
        return (-Int(vips_image_get_xoffset(part.pointer)), -Int(vips_image_get_yoffset(part.pointer)))
    }

    package func flatten(background: [Double]) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_flatten(pointer, background, Int32(background.count), $0) }
    }

    /// Converts to 8 bits for each channel: sRGB, or gray if it was gray.
    func eightBit() throws(VipsError) -> VipsImage {
        var image = self
        let interpretation = vips_image_get_interpretation(pointer)
        let isGray = interpretation == VIPS_INTERPRETATION_B_W
        if interpretation != VIPS_INTERPRETATION_sRGB && !isGray {
            image = try Self.make { megaton_vips_to_srgb(pointer, $0) }
        }
        if vips_image_get_format(image.pointer) != VIPS_FORMAT_UCHAR {
            let wide = image
            image = try Self.make { megaton_vips_cast_uchar(wide.pointer, $0) }
        }
        return image
    }

    /// Applies the same change to each frame.
    func mapFrames(_ change: (VipsImage) throws(VipsError) -> VipsImage) throws(VipsError) -> VipsImage {
        if frames <= 1 { return try change(self) }
        var pages: [VipsImage] = []
        for index in 0..<frames { pages.append(try change(extract(0, index * pageHeight, size))) }
        var pointers = pages.map(\.pointer)
        let roll = try Self.make { megaton_vips_join(&pointers, Int32(pages.count), $0) }
        // Works on a copy, because metadata of shared images must not change.
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

    /// Lets libvips poll a deadline; must outlive the evaluation.
    final class Stop {
        let pointer: UnsafeMutablePointer<megaton_vips_stop>
        /// Keeps the deadline alive: the C side only borrows it.
        private let deadline: RenderDeadline

        /// Polled by loops outside of libvips.
        var isExpired: Bool { deadline.isExpired }

        init(_ deadline: RenderDeadline) {
            self.deadline = deadline
            pointer = .allocate(capacity: 1)
            pointer.initialize(
                to: megaton_vips_stop(
                    asks: { context in
                        guard let context else { return 0 }
                        return Unmanaged<RenderDeadline>.fromOpaque(context).takeUnretainedValue().isExpired ? 1 : 0
                    },
                    context: Unmanaged.passUnretained(deadline).toOpaque()
                )
            )
        }

        deinit { pointer.deallocate() }
    }
}

/// A failed libvips call, with the reason that libvips reported.
package struct VipsError: Error {
    let text: String
    /// The error of the render, if its cause is not the data: decoding it again would be in vain.
    let cause: ImageError?

    init(_ text: String = VipsMessages.text() ?? VipsRuntime.takeErrorText()) {
        self.text = text
        cause = nil
    }

    init(_ cause: ImageError) {
        text = cause.message
        self.cause = cause
    }
}

extension Rendition.FailOn {
    /// The corresponding level of libvips.
    fileprivate var level: VipsFailOn {
        switch self {
        case .nothing: VIPS_FAIL_ON_NONE
        case .truncated: VIPS_FAIL_ON_TRUNCATED
        case .error: VIPS_FAIL_ON_ERROR
        case .warning: VIPS_FAIL_ON_WARNING
        }
    }
}
