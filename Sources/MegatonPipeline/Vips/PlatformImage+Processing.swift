internal import Foundation

extension PlatformImage {
    /// What a processor makes of the picture: in memory, 8 bits, within the limits for what comes out and the time.
    ///
    /// - Parameters:
    ///   - what: does it, for messages.
    ///   - change: builds a graph; its size is looked at before a pixel of it is computed.
    /// - Throws: `.processingFailed`, `.outputTooLarge`, `.renderTimedOut`, `.cancelled`.
    func changed(
        by what: String,
        _ bounds: ProcessingBounds,
        _ change: (VipsImage) throws(VipsError) -> VipsImage
    ) throws(ImagePipeline.Error) -> PlatformImage {
        let stop = VipsImage.Stop(bounds.deadline)
        func failure(_ error: VipsError) -> ImagePipeline.Error {
            bounds.deadline.error
                ?? ImagePipeline.Error(.processingFailed, "\(what) failed: \(error.text).", stage: .process)
        }
        let result: VipsImage
        do {
            result = try VipsMessages.collecting { () throws(VipsError) in try change(picture) }
        } catch {
            throw failure(error)
        }
        try bounds.checkOutput(Double(result.width), Double(result.height), what)
        do {
            // Without its metadata, offsets and watchers: what others hold is not what was computed on the way.
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

    /// One band of coverage, 0 to 255, in rows from the top.
    static func mask(_ pixels: [UInt8], _ size: PixelSize) throws(VipsError) -> VipsImage {
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
