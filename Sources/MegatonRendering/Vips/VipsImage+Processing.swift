internal import CVips

extension VipsImage {
    // MARK: - Alpha

    package func withAlpha() throws(VipsError) -> VipsImage {
        hasAlpha ? self : try Self.make { megaton_vips_add_alpha(pointer, $0) }
    }

    /// All bands except alpha.
    package func opaque() throws(VipsError) -> VipsImage {
        guard hasAlpha else { return self }
        let count = Int32(bands - 1)
        return try Self.make { megaton_vips_bands(pointer, 0, count, $0) }
    }

    /// The alpha band of an image that has one.
    package func alpha() throws(VipsError) -> VipsImage {
        let last = Int32(bands - 1)
        return try Self.make { megaton_vips_bands(pointer, last, 1, $0) }
    }

    package func joined(_ alpha: VipsImage) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_join_bands(pointer, alpha.pointer, $0) }
    }

    /// Applies a change to premultiplied samples, so that colors of transparent pixels have no effect on the result.
    /// Returns 8 bits for each channel.
    package func premultiplied(
        _ change: (VipsImage) throws(VipsError) -> VipsImage
    ) throws(VipsError) -> VipsImage {
        guard hasAlpha else { return try change(self) }
        let changed = try change(try Self.make { megaton_vips_premultiply(pointer, $0) })
        return try Self.make { megaton_vips_unpremultiply(changed.pointer, $0) }.rounded()
    }

    /// Multiplies alpha by a mask of one band: transparent at 0, unchanged at 255.
    package func masked(_ mask: VipsImage) throws(VipsError) -> VipsImage {
        guard hasAlpha else { return try joined(mask) }
        let alpha = try alpha()
        return try opaque().joined(try Self.make { megaton_vips_mask(alpha.pointer, mask.pointer, $0) })
    }

    /// - Parameter opacity: 0 to 1.
    package func faded(_ opacity: Double) throws(VipsError) -> VipsImage {
        if opacity == 1 { return self }
        let full = try withAlpha()
        let alpha = try full.alpha()
        return try full.opaque().joined(try Self.make { megaton_vips_fade(alpha.pointer, opacity, $0) })
    }

    // MARK: - Samples

    /// Rounds to 8 bits for each channel.
    package func rounded() throws(VipsError) -> VipsImage {
        if vips_image_get_format(pointer) == VIPS_FORMAT_UCHAR { return self }
        return try Self.make { megaton_vips_round_uchar(pointer, $0) }
    }

    /// Converts gray images to RGB.
    package func inColor() throws(VipsError) -> VipsImage {
        bands > 2 ? self : try Self.make { megaton_vips_to_srgb(pointer, $0) }
    }

    /// Declares 8-bit samples as gray (one or two bands) or sRGB (three or four), whatever the interpretation was.
    package func withStandardColors() throws(VipsError) -> VipsImage {
        let rounded = try rounded()
        return try Self.make { megaton_vips_call_picture(rounded.pointer, $0) }
    }

    /// A single color at this image's size.
    package func solid(_ values: [Double]) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_solid(pointer, values, Int32(values.count), $0) }
    }

    // MARK: - Geometry

    /// Places the image on a larger canvas.
    package func placed(_ left: Int, _ top: Int, on canvas: PixelSize, _ background: [Double]) throws(VipsError)
        -> VipsImage
    {
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

    /// - Parameter quarters: Quarter turns, clockwise: 1, 2 or 3.
    package func turned(_ quarters: Int) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_turn(pointer, Int32(quarters), $0) }
    }

    /// Rotates clockwise. The exposed corners take one background value for each band.
    package func rotated(_ degrees: Double, _ background: [Double]) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_rotate(pointer, degrees, background, Int32(background.count), $0) }
    }

    package func flipped(vertically: Bool) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_flip(pointer, vertically ? 1 : 0, $0) }
    }

    /// Repeats the image from the top left until an area is filled.
    package func tiled(_ size: PixelSize) throws(VipsError) -> VipsImage {
        let across = Int32((size.width + width - 1) / width)
        let down = Int32((size.height + height - 1) / height)
        let all = try Self.make { megaton_vips_repeat(pointer, across, down, $0) }
        return try all.extract(0, 0, size)
    }

    // MARK: - Filters

    package func blurred(_ sigma: Double) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_blur(pointer, sigma, $0) }
    }

    package func sharpened(_ sigma: Double, flat: Double, jagged: Double) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_sharpen(pointer, sigma, flat, jagged, $0) }
    }

    /// Draws the overlay on top. Both images must have alpha and the same interpretation.
    package func covered(by overlay: VipsImage, at left: Int, _ top: Int) throws(VipsError) -> VipsImage {
        try Self.make { megaton_vips_over(pointer, overlay.pointer, Int32(left), Int32(top), $0) }
    }
}
