internal import CVips

extension VipsImage {
    /// The smallest part that has all pixels that differ from the top left pixel of the first frame, in any frame. The
    /// whole image if none differs: an image of one color is not trimmed.
    ///
    /// Done here, as libvips' own search removes details of a pixel's size first.
    ///
    /// - Parameters:
    ///   - tolerance: A pixel differs if any channel does by more than this, 0 to 255. Colors of transparent pixels do
    ///     not matter.
    ///   - isStopped: Polled for each row.
    package func content(tolerance: Int, isStopped: () -> Bool) throws(VipsError) -> PixelBox {
        let whole = PixelBox(left: 0, top: 0, size: size)
        guard bytesPerSample == 1, let data = vips_image_get_data(pointer) else {
            throw VipsError("the pixels are not in memory")
        }
        let (width, rows, pageRows, bands) = (width, height, pageHeight, bands)
        let pixels = UnsafeRawBufferPointer(start: data, count: width * rows * bands)
        let border = BorderColor(pixels, bands: bands, hasAlpha: hasAlpha, tolerance: tolerance)
        var (left, right, top, bottom) = (width, -1, pageRows, -1)
        for row in 0..<rows {
            if isStopped() { throw VipsError("the search for borders was stopped") }
            let start = row * width
            guard let first = (0..<width).first(where: { border.differs(from: pixels, at: start + $0) }) else {
                continue
            }
            let last = (first..<width).last { border.differs(from: pixels, at: start + $0) } ?? first
            (left, right) = (min(left, first), max(right, last))
            (top, bottom) = (min(top, row % pageRows), max(bottom, row % pageRows))
        }
        if right < 0 { return whole }
        return PixelBox(left: left, top: top, size: PixelSize(width: right - left + 1, height: bottom - top + 1))
    }
}

/// The top left pixel of an image.
private struct BorderColor {
    private let values: [Int]
    private let hasAlpha: Bool
    private let tolerance: Int

    init(_ pixels: UnsafeRawBufferPointer, bands: Int, hasAlpha: Bool, tolerance: Int) {
        values = pixels.prefix(bands).map(Int.init)
        self.hasAlpha = hasAlpha
        self.tolerance = tolerance
    }

    /// - Parameter index: of the pixel.
    func differs(from pixels: UnsafeRawBufferPointer, at index: Int) -> Bool {
        let start = index * values.count
        let alpha = values.count - 1
        if hasAlpha, values[alpha] == 0, pixels[start + alpha] == 0 { return false }
        for band in values.indices where abs(Int(pixels[start + band]) - values[band]) > tolerance { return true }
        return false
    }
}
