internal import Foundation

/// The engine that does everything.
struct VipsEngine: RenderEngine {
    func probe(_ data: Data, type: AssetType) throws(ImagePipeline.Error) -> ImageProbe {
        try VipsRuntime.start()
        return try withBytes(of: data, failing: .corruptImage, "the header cannot be read") { bytes throws(VipsError) in
            let image = try VipsImage.open(bytes)
            return ImageProbe(
                type: type,
                width: image.width,
                height: image.height,
                bands: image.bands,
                frames: image.integer("n-pages", default: 1),
                orientation: image.orientation,
                isProgressive: image.integer("jpeg-multiscan", default: 0) == 1
                    || image.integer("interlaced", default: 0) == 1
            )
        }
    }

    func execute(
        _ plan: RenderPlan,
        _ data: Data,
        deadline: RenderDeadline
    ) throws(ImagePipeline.Error) -> [EncodedImage] {
        let limit = VipsImage.Stop(deadline)
        do throws(ImagePipeline.Error) {
            return try withBytes(of: data, failing: .corruptImage, "the picture cannot be decoded") {
                bytes throws(VipsError) in
                // libvips opens lazily, so that the buffer must live until the last rendition is encoded.
                try withExtendedLifetime(limit) { () throws(VipsError) in try render(plan, bytes, limit) }
            }
        } catch {
            throw deadline.error ?? error
        }
    }

    private func render(
        _ plan: RenderPlan,
        _ bytes: UnsafeRawBufferPointer,
        _ limit: VipsImage.Stop
    ) throws(VipsError) -> [EncodedImage] {
        let first = try VipsImage.open(bytes, options: Self.loadOptions(plan)).thumbnail(plan.base)
        let base = plan.steps.count > 1 ? try first.inMemory(stop: limit) : first
        var encoded: [EncodedImage] = []
        for step in plan.steps {
            let scaled = step.scaled == plan.base ? base : try base.thumbnail(step.scaled)
            let image = try arrange(scaled, step)
            let rendition = step.rendition
            encoded.append(
                EncodedImage(
                    data: try image.encode(rendition.format, quality: rendition.quality, stop: limit),
                    size: PixelSize(width: image.width, height: image.height)
                )
            )
        }
        return encoded
    }

    /// Shrink on load. It is a block average, which sharpens: at least a factor of two is left to the resampling, the
    /// margin of libvips' own thumbnailer.
    private static func loadOptions(_ plan: RenderPlan) -> String {
        let source = plan.probe.uprightSize
        let shrink = min(
            Double(source.width) / Double(plan.base.width),
            Double(source.height) / Double(plan.base.height)
        )
        switch plan.probe.type {
        case .jpeg: return [8, 4, 2].first { shrink >= Double($0 * 2) }.map { "shrink=\($0)" } ?? ""
        case .webp: return shrink > 2 ? "scale=\(2 / shrink)" : ""
        default: return ""
        }
    }

    private func arrange(_ scaled: VipsImage, _ step: RenderPlan.Step) throws(VipsError) -> VipsImage {
        var image = try scaled.eightBit()
        let rendition = step.rendition
        let color = rendition.background
        let rgb = [Double(color.red), Double(color.green), Double(color.blue)]
        if let crop = step.crop { image = try image.crop(centre: crop) }
        if image.hasAlpha && !rendition.format.hasAlpha {
            // The weights of sRGB's luminance: what white, black and greys become in one channel.
            let grey = 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]
            image = try image.flatten(background: image.bands > 2 ? rgb : [grey.rounded()])
        }
        if let canvas = step.canvas {
            let grey = (0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]).rounded()
            let opaque = image.bands > 2 ? rgb : [grey]
            image = try image.pad(to: canvas, background: image.hasAlpha ? opaque.map { _ in 0 } + [0] : opaque)
        }
        return image
    }

    private func withBytes<Value>(
        of data: Data,
        failing code: ImagePipeline.Error.Code,
        _ what: String,
        _ body: (UnsafeRawBufferPointer) throws(VipsError) -> Value
    ) throws(ImagePipeline.Error) -> Value {
        let result: Result<Value, VipsError> = data.withUnsafeBytes { bytes in
            do throws(VipsError) { return .success(try body(bytes)) } catch { return .failure(error) }
        }
        switch result {
        case .success(let value): return value
        case .failure(let error): throw ImagePipeline.Error(code, "\(what): \(error.text).")
        }
    }
}
