internal import Foundation

extension PlatformImage {
    /// Applies a processor's change. The result is in memory, has 8 bits for each channel, and is within the limits for
    /// output size and time.
    ///
    /// - Parameters:
    ///   - what: Name of the operation, for messages.
    ///   - change: Builds a graph; the size of its result is checked before any pixel is computed.
    /// - Throws: `.processingFailed`, `.outputTooLarge`, `.renderTimedOut`, `.cancelled`.
    package func changed(
        by what: String,
        _ bounds: ProcessingBounds,
        _ change: (VipsImage) throws(VipsError) -> VipsImage
    ) throws(ImageError) -> PlatformImage {
        let stop = VipsImage.Stop(bounds.deadline)
        func failure(_ error: VipsError) -> ImageError {
            bounds.deadline.error
                ?? ImageError(.processingFailed, "\(what) failed: \(error.text).", stage: .process)
        }
        let result: VipsImage
        do {
            result = try VipsMessages.collecting { () throws(VipsError) in try change(vipsImage) }
        } catch {
            throw failure(error)
        }
        try bounds.checkOutput(Double(result.width), Double(result.height), what)
        do {
            // Removes metadata, offsets and progress handlers, which must not leak from the graph into a shared image.
            let image = try result.eightBit().keeping([])
            return PlatformImage(
                inMemory: try VipsMessages.collecting { () throws(VipsError) in
                    try withExtendedLifetime(stop) { () throws(VipsError) in try image.inMemory(stop: stop) }
                }
            )
        } catch {
            throw failure(error)
        }
    }

    /// Draws a watermark.
    ///
    /// - Parameters:
    ///   - watermark: with the pixels of its image.
    ///   - what: Name of the operation, for messages.
    /// - Throws: as `changed`.
    package func marked(
        with watermark: Rendition.Watermark,
        by what: String,
        _ bounds: ProcessingBounds
    ) throws(ImageError) -> PlatformImage {
        let stop = VipsImage.Stop(bounds.deadline)
        return try changed(by: what, bounds) { pixels throws(VipsError) in
            try WatermarkDrawing(watermark, on: size, isGray: pixels.bands <= 2, stop: stop).draw(on: pixels)
        }
    }

    /// A mask of one band with the coverage of each pixel, 0 to 255, in rows from the top.
    package static func mask(_ pixels: [UInt8], _ size: PixelSize) throws(VipsError) -> VipsImage {
        let result: Result<VipsImage, VipsError> = pixels.withUnsafeBytes { bytes in
            do throws(VipsError) {
                return .success(try VipsImage.fromMemory(bytes, size, bands: 1))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }
}
