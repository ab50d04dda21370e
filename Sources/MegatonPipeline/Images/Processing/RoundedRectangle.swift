/// A rectangle with round corners, rasterized to a coverage mask.
///
/// Drawn here because the SVG loader is disabled by default, and libvips has no such shapes before 8.16.
struct RoundedRectangle {
    let size: PixelSize
    /// Corner radius, limited to half of the shorter side.
    var radius: Double
    /// Distance from the edges, on all sides.
    var inset = 0.0

    /// The coverage of each pixel, 0 to 255, in rows from the top.
    func coverage() -> [UInt8] {
        let (width, height) = (Double(size.width), Double(size.height))
        let half = (width: max(0, width / 2 - inset), height: max(0, height / 2 - inset))
        var mask = [UInt8](repeating: 0, count: size.width * size.height)
        if half.width == 0 || half.height == 0 { return mask }
        // Concentric with the corners of the outer edge.
        let round = min(max(0, min(radius, width / 2, height / 2) - inset), half.width, half.height)
        for row in 0..<(size.height + 1) / 2 {
            for column in 0..<(size.width + 1) / 2 {
                // Distance from the center; all four quadrants are the same.
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

    /// Coverage falls from full to none within half a pixel on either side of the edge.
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

    /// Crops the shape from an image of its size.
    ///
    /// - Parameter prepare: Converts the input to the shape's size.
    func cut(
        _ what: String,
        _ image: PlatformImage,
        _ border: ImageProcessingOptions.Border?,
        _ bounds: ProcessingBounds,
        _ prepare: (VipsImage) throws(VipsError) -> VipsImage = { pixels throws(VipsError) in pixels }
    ) throws(ImageError) -> PlatformImage {
        if let border, !border.width.isFinite || border.width < 0 {
            throw ImageProcessors.failure(what, "the border's width must be a number, 0 or more")
        }
        try bounds.checkOutput(Double(size.width), Double(size.height), what)
        return try image.changed(by: what, bounds) { pixels throws(VipsError) in
            var pixels = try prepare(pixels)
            if let border, border.width > 0 { pixels = try framed(pixels, border) }
            return try pixels.masked(PlatformImage.mask(coverage(), size))
        }
    }

    /// Draws the border: the area outside of a smaller inset shape. The caller cuts off the part outside of this shape.
    private func framed(
        _ pixels: VipsImage,
        _ border: ImageProcessingOptions.Border
    ) throws(VipsError) -> VipsImage {
        var inner = self
        inner.inset = border.width
        let base = try (border.color.isGray ? pixels : pixels.inColor()).withAlpha()
        let frame = try PlatformImage.mask(inner.coverage().map { 255 - $0 }, size)
        let color = try base.opaque().solid(border.color.channels(gray: base.bands <= 2))
        return try base.covered(by: color.joined(frame), at: 0, 0)
    }
}
