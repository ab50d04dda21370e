/// A rectangle with round corners, as far as each pixel lies within it.
///
/// Drawn here and not from SVG, whose loader is off, and before libvips 8.16 has shapes of its own.
struct RoundedRectangle {
    let size: PixelSize
    /// No more than half of the shorter side counts.
    var radius: Double
    /// How far within the edges it begins, on all sides.
    var inset = 0.0

    /// 0 to 255 for each pixel, in rows from the top.
    func coverage() -> [UInt8] {
        let (width, height) = (Double(size.width), Double(size.height))
        let half = (width: max(0, width / 2 - inset), height: max(0, height / 2 - inset))
        var mask = [UInt8](repeating: 0, count: size.width * size.height)
        if half.width == 0 || half.height == 0 { return mask }
        // Concentric with the corners of the outer edge.
        let round = min(max(0, min(radius, width / 2, height / 2) - inset), half.width, half.height)
        for row in 0..<(size.height + 1) / 2 {
            for column in 0..<(size.width + 1) / 2 {
                // From the middle; the four corners are the same.
                let x = width / 2 - Double(column) - 0.5
                let y = height / 2 - Double(row) - 0.5
                let value = Self.coverage(x, y, half.width, half.height, round)
                let (last, lowest) = (size.width - 1 - column, size.height - 1 - row)
                mask[row * size.width + column] = value
                mask[row * size.width + last] = value
                mask[lowest * size.width + column] = value
                mask[lowest * size.width + last] = value
            }
        }
        return mask
    }

    /// Half a pixel on either side of the edge goes from all to nothing.
    private static func coverage(
        _ x: Double,
        _ y: Double,
        _ halfWidth: Double,
        _ halfHeight: Double,
        _ radius: Double
    ) -> UInt8 {
        let (beyondX, beyondY) = (x - (halfWidth - radius), y - (halfHeight - radius))
        let outside = max(beyondX, 0) * max(beyondX, 0) + max(beyondY, 0) * max(beyondY, 0)
        let distance = outside.squareRoot() + min(max(beyondX, beyondY), 0) - radius
        return UInt8((min(max(0.5 - distance, 0), 1) * 255).rounded())
    }

    /// Cuts the shape out of a picture of its size.
    ///
    /// - Parameter prepare: makes that picture.
    func cut(
        _ what: String,
        _ image: PlatformImage,
        _ border: ImageProcessingOptions.Border?,
        _ bounds: ProcessingBounds,
        _ prepare: (VipsImage) throws(VipsError) -> VipsImage = { picture throws(VipsError) in picture }
    ) throws(ImagePipeline.Error) -> PlatformImage {
        if let border, !border.width.isFinite || border.width < 0 {
            throw ImageProcessors.failure(what, "the border's width must be a number, 0 or more")
        }
        try bounds.checkOutput(Double(size.width), Double(size.height), what)
        return try image.changed(by: what, bounds) { picture throws(VipsError) in
            var picture = try prepare(picture)
            if let border, border.width > 0 { picture = try framed(picture, border) }
            return try picture.masked(PlatformImage.mask(coverage(), size))
        }
    }

    /// The border is all that is not within a smaller one of these; what is outside of this one is cut off later.
    private func framed(
        _ picture: VipsImage,
        _ border: ImageProcessingOptions.Border
    ) throws(VipsError) -> VipsImage {
        var inner = self
        inner.inset = border.width
        let base = try (border.color.isGrey ? picture : picture.coloured()).withAlpha()
        let frame = try PlatformImage.mask(inner.coverage().map { 255 - $0 }, size)
        let colour = try base.opaque().solid(border.color.channels(grey: base.bands <= 2))
        return try base.covered(by: colour.joined(frame), at: 0, 0)
    }
}
