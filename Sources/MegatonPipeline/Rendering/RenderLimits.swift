/// What a picture may be at the most. All are checked against the header, before a pixel is decoded.
public struct RenderLimits: Sendable, Equatable {
    /// Width x height, summed over the frames that are read.
    public var pixels = 50_000_000
    /// The longer side, pixels.
    public var side = 16_384
    /// Channels. More are no picture for people, and have been the way into TIFF decoders (CVE-2026-69242).
    public var bands = 5
    /// How long one job's rendering may take.
    public var time: Duration = .seconds(30)

    public init() {}

    /// - Throws: `.sideTooLong`, `.imageTooLarge`, `.tooManyBands`.
    func check(_ probe: ImageProbe) throws(ImagePipeline.Error) {
        let size = "\(probe.width)x\(probe.height)"
        guard probe.width > 0, probe.height > 0 else {
            throw ImagePipeline.Error(.corruptImage, "The header says \(size) pixels.")
        }
        if max(probe.width, probe.height) > side {
            throw ImagePipeline.Error(.sideTooLong, "\(size) pixels: a side may have \(side).")
        }
        if probe.width * probe.height > pixels {
            throw ImagePipeline.Error(
                .imageTooLarge,
                "\(size) is \(probe.width * probe.height) pixels; the limit is \(pixels)."
            )
        }
        if probe.bands > bands {
            throw ImagePipeline.Error(.tooManyBands, "\(probe.bands) channels; the limit is \(bands).")
        }
    }
}
