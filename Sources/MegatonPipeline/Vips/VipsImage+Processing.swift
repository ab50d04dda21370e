internal import CVips

extension VipsImage {
    // MARK: - Alpha

    func withAlpha() throws(VipsError) -> VipsImage {
        hasAlpha ? self : try Self.make { megaton_vips_add_alpha(pointer, $0) }
    }

    /// All but alpha.
    func opaque() throws(VipsError) -> VipsImage {
        guard hasAlpha else { return self }
        let count = Int32(bands - 1)
        return try Self.make { megaton_vips_bands(pointer, 0, count, $0) }
    }

    /// Alpha alone, of a picture that has it.
    func alpha() throws(VipsError) -> VipsImage {
        let last = Int32(bands - 1)
        return try Self.make { megaton_vips_bands(pointer, last, 1, $0) }
    }

    func joined(_ alpha: VipsImage) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_join_bands(pointer, alpha.pointer, $0) }
    }

    /// A change of which transparent pixels' colours must be no part. Back in 8 bits.
    func premultiplied(
        _ change: (VipsImage) throws(VipsError) -> VipsImage
    ) throws(VipsError) -> VipsImage {
        guard hasAlpha else { return try change(self) }
        let changed = try change(try Self.make { megaton_vips_premultiply(pointer, $0) })
        return try Self.make { megaton_vips_unpremultiply(changed.pointer, $0) }.rounded()
    }

    /// Transparent where a mask of one band is 0, and as it was where it is 255.
    func masked(_ mask: VipsImage) throws(VipsError) -> VipsImage {
        guard hasAlpha else { return try joined(mask) }
        let alpha = try alpha()
        return try opaque().joined(try Self.make { megaton_vips_mask(alpha.pointer, mask.pointer, $0) })
    }

    /// - Parameter opacity: 0 to 1.
    func faded(_ opacity: Double) throws(VipsError) -> VipsImage {
        if opacity == 1 { return self }
        let full = try withAlpha()
        let alpha = try full.alpha()
        return try full.opaque().joined(try Self.make { megaton_vips_fade(alpha.pointer, opacity, $0) })
    }

    // MARK: - Samples

    /// 8 bits a channel, by the nearest number.
    func rounded() throws(VipsError) -> VipsImage {
        if vips_image_get_format(pointer) == VIPS_FORMAT_UCHAR { return self }
        return try Self.make { megaton_vips_round_uchar(pointer, $0) }
    }

    /// Red, green and blue of a grey picture, too.
    func coloured() throws(VipsError) -> VipsImage {
        bands > 2 ? self : try Self.make { megaton_vips_to_srgb(pointer, $0) }
    }

    /// Whatever its numbers were called: 8 bits, one or two bands are grey, three or four are sRGB.
    func asPicture() throws(VipsError) -> VipsImage {
        let rounded = try rounded()
        return try Self.make { megaton_vips_call_picture(rounded.pointer, $0) }
    }

    /// One colour at this picture's size.
    func solid(_ values: [Double]) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_solid(pointer, values, Int32(values.count), $0) }
    }

    // MARK: - Geometry

    /// A canvas with this picture somewhere on it.
    func placed(_ left: Int, _ top: Int, on canvas: PixelSize, _ background: [Double]) throws(VipsError) -> VipsImage {
        try Self.make {
            megaton_vips_place(
                pointer,
                Int32(left),
                Int32(top),
                Int32(canvas.width),
                Int32(canvas.height),
                background,
                Int32(background.count),
                $0
            )
        }
    }

    /// - Parameter quarters: of a turn, clockwise: 1, 2 or 3.
    func turned(_ quarters: Int) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_turn(pointer, Int32(quarters), $0) }
    }

    /// Clockwise, with one value for each band in the corners that become free.
    func rotated(_ degrees: Double, _ background: [Double]) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_rotate(pointer, degrees, background, Int32(background.count), $0) }
    }

    func flipped(vertically: Bool) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_flip(pointer, vertically ? 1 : 0, $0) }
    }

    /// Side by side and one below the other until an area is filled, from the left top.
    func tiled(_ size: PixelSize) throws(VipsError) -> VipsImage {
        let across = Int32((size.width + width - 1) / width)
        let down = Int32((size.height + height - 1) / height)
        let all = try Self.make { megaton_vips_repeat(pointer, across, down, $0) }
        return try all.extract(0, 0, size)
    }

    // MARK: - Filters

    func blurred(_ sigma: Double) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_blur(pointer, sigma, $0) }
    }

    func sharpened(_ sigma: Double, flat: Double, jagged: Double) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_sharpen(pointer, sigma, flat, jagged, $0) }
    }

    /// Both must have alpha and be of the same kind.
    func covered(by overlay: VipsImage, at left: Int, _ top: Int) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_over(pointer, overlay.pointer, Int32(left), Int32(top), $0) }
    }
}
