package import Foundation

/// Upper bounds for sources and results. A source is checked by its header, before any pixel is decoded.
public struct RenderLimits: Sendable, Equatable {
    /// Width x height, summed over the frames that are decoded.
    public var pixels = 50_000_000
    /// The longer side, in pixels.
    public var side = 16_384
    /// Channels. More are of no use in a visible image, and have been an attack vector in TIFF decoders
    /// (CVE-2026-69242).
    public var bands = 5
    /// Frames that are decoded if an animation is kept; otherwise only one frame is decoded.
    public var frames = 256
    /// Time limit of one job's rendering.
    public var time: Duration = .seconds(30)
    /// The longer side of a result, in pixels.
    public var outputSide = 8192
    /// Width x height of a result, summed over its frames.
    public var outputPixels = 50_000_000

    /// Creates the default limits.
    public init() {}

    /// Reads the header and checks it against the limits.
    package func probe(
        _ data: Data,
        _ type: AssetType,
        _ engine: any RenderEngine
    ) throws(ImageError) -> ImageProbe {
        do throws(ImageError) {
            let probe = try engine.probe(data, type: type)
            try check(probe)
            return probe
        } catch {
            // libheif also refuses sizes above a limit of its own, with the same error message as for damage.
            if error.code == .corruptImage, let size = type.declaredSize(data) {
                try checkSize("\(size)", width: size.width, height: size.height)
            }
            throw error
        }
    }

    /// - Parameter frames: Number of frames that will be decoded.
    /// - Throws: `.sideTooLong`, `.imageTooLarge`, `.tooManyBands`, `.tooManyFrames`.
    func check(_ probe: ImageProbe, frames read: Int = 1) throws(ImageError) {
        let size = "\(probe.width)x\(probe.height)"
        guard probe.width > 0, probe.height > 0 else {
            throw ImageError(.corruptImage, "The header says \(size) pixels.")
        }
        try checkSize(size, width: probe.width, height: probe.height)
        if probe.bands > bands {
            throw ImageError(.tooManyBands, "\(probe.bands) channels; the limit is \(bands).")
        }
        if read > frames {
            throw ImageError(
                .tooManyFrames,
                "\(read) frames are to be kept; the limit is \(frames) (RenderLimits.frames)."
            )
        }
        let all = probe.width * probe.height * read
        if all > pixels {
            throw ImageError(
                .imageTooLarge,
                "\(size) pixels in \(read) frames are \(Self.megapixels(all)) megapixels; the limit is "
                    + "\(Self.megapixels(pixels)) (RenderLimits.pixels)."
            )
        }
        if let heif = probe.heif { try check(heif) }
    }

    /// HEIF and AVIF images are decoded at the size that their streams declare, and may be derived from other images.
    private func check(_ heif: HEIFDemand) throws(ImageError) {
        let size = heif.largest
        let note = heif.lie.map { " \($0)" } ?? ""
        if heif.longestSide > side || HEIFMeasure.product(size.width, size.height) > pixels {
            throw ImageError(
                heif.longestSide > side ? .sideTooLong : .imageTooLarge,
                "\(heif.largestItem) has \(size) pixels; a side may have \(side) (RenderLimits.side), and all "
                    + "\(Self.megapixels(pixels)) megapixels (RenderLimits.pixels).\(note)"
            )
        }
        if let lie = heif.lie { throw ImageError(.corruptImage, lie) }
        if let excess = heif.excess { throw ImageError(.tooCostly, excess) }
        if heif.work > HEIFMeasure.product(pixels, Self.work) {
            throw ImageError(
                .imageTooLarge,
                "it is made of images that are made of others or turned so often that \(Self.megapixels(heif.work)) "
                    + "megapixels would have to be worked on; the limit is "
                    + "\(Self.megapixels(HEIFMeasure.product(pixels, Self.work))), \(Self.work) times that of an image "
                    + "(RenderLimits.pixels)."
            )
        }
    }

    /// Passes over the largest allowed image: tiles, canvas, alpha channel, rotations and crops.
    private static let work = 8

    private func checkSize(_ size: String, width: Int, height: Int) throws(ImageError) {
        if max(width, height) > side {
            throw ImageError(.sideTooLong, "\(size) pixels: the limit of a side is \(side) (RenderLimits.side).")
        }
        let (area, isBeyondCounting) = width.multipliedReportingOverflow(by: height)
        if isBeyondCounting || area > pixels {
            let amount = isBeyondCounting ? "" : ", \(Self.megapixels(area)) megapixels,"
            throw ImageError(
                .imageTooLarge,
                "\(size) pixels\(amount) are more than the limit of \(Self.megapixels(pixels)) megapixels "
                    + "(RenderLimits.pixels)."
            )
        }
    }

    /// A number of pixels in millions, with all digits, so that one that is beyond a limit is not shown as equal to it.
    static func megapixels(_ pixels: Int) -> String {
        let million = 1_000_000
        let digits = String(pixels % million)
        var fraction = String(repeating: "0", count: 6 - digits.count) + digits
        while fraction.hasSuffix("0") { fraction.removeLast() }
        return fraction.isEmpty ? "\(pixels / million)" : "\(pixels / million).\(fraction)"
    }

    /// Checks that the values are valid and within the limits, for any source.
    ///
    /// - Throws: `.outputTooLarge`; `.renderFailed` for invalid values; `.unsupportedFormat` for a format that is
    ///   disabled.
    package func check(_ rendition: Rendition) throws(ImageError) {
        if let validationError = rendition.renderValidationError {
            throw ImageError(.renderFailed, "The rendition \(rendition.name) cannot be made: \(validationError).")
        }
        for wanted in [rendition.width, rendition.height] {
            if let wanted, wanted > outputSide {
                throw ImageError(
                    .outputTooLarge,
                    "A side of \(wanted) pixels is asked for; the limit is \(outputSide)."
                )
            }
        }
        if rendition.format == .jxl && !VipsRuntime.allowed.contains(.jxl) {
            throw ImageError(
                .unsupportedFormat,
                "jxl is disabled in this process; VipsRuntime.allow([.jxl]) enables it."
            )
        }
    }

    /// Checks the results and the intermediate images of a plan.
    ///
    /// - Throws: `.outputTooLarge`.
    func check(_ plan: RenderPlan) throws(ImageError) {
        for step in plan.steps {
            try check(step.output, frames: step.frames)
            // Sizes up to the source's own have been checked with the source.
            let source = plan.probe.uprightSize
            if step.scaled.width > source.width || step.scaled.height > source.height {
                try check(step.scaled, frames: step.frames)
            }
        }
    }

    private func check(_ size: PixelSize, frames: Int) throws(ImageError) {
        if max(size.width, size.height) > outputSide {
            throw ImageError(
                .outputTooLarge,
                "The result would be \(size) pixels; the limit of a side is \(outputSide). Ask for a smaller size."
            )
        }
        if size.width * size.height * frames > outputPixels {
            throw ImageError(
                .outputTooLarge,
                "The result would be \(size) pixels\(frames == 1 ? "" : " in \(frames) frames"); the limit is "
                    + "\(outputPixels) pixels in all. Ask for a smaller size."
            )
        }
    }
}
