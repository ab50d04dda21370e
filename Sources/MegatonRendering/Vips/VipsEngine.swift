package import Foundation

/// The engine for all formats and operations.
package struct VipsEngine: RenderEngine {
    package init() {}

    package func probe(_ data: Data, type: AssetType) throws(ImageError) -> ImageProbe {
        try VipsRuntime.start()
        if type == .avif && AssetType.isSequence(data) {
            throw ImageError(
                .unsupportedFormat,
                "this is an AVIF image sequence (brand avis), and only single AVIF images are read."
            )
        }
        try HeaderBounds.check(data, type)
        // libheif copies the bytes of all items while it reads the header, so each file is measured before libheif
        // opens it.
        let demand = type.isHEIF ? try HEIFDemand(data) : nil
        // Damage is tolerated here; each rendition's own limit applies when its pixels are decoded.
        let attempt = DecodingAttempt(data, type, failOn: .nothing)
        let result = attempt.result { source throws(VipsError) in
            let image = try source.open()
            guard type.loaders.contains(image.loader) else {
                throw VipsError("\(image.loader) would open data that looks like \(type)")
            }
            var probe = image.probe(type, source.notes)
            probe.heif = demand
            return probe
        }
        if case .failure(let error) = result, error.cause == nil, type == .webp,
            let size = HeaderBounds.declaredSize(ofRIFF: data), size > data.count
        {
            throw .corrupt(
                "it is cut short, to \(data.count) of \(size) bytes, and of a WebP only the whole file is read",
                "the image cannot be decoded"
            )
        }
        return try result.orThrow("the header cannot be read")
    }

    package func render(
        _ pass: RenderPlan.Pass,
        of plan: RenderPlan,
        from data: Data,
        deadline: RenderDeadline
    ) throws(ImageError) -> [EncodedImage] {
        try rendering(pass, plan, data, damage: nil, deadline)
    }

    /// Makes the steps of a pass from its base, which another decoder has made.
    ///
    /// - Returns: nil if libvips fails; a render from the source finds the reason.
    /// - Throws: `.renderTimedOut`, `.cancelled`, and errors whose cause is not the data.
    func render(
        _ pass: RenderPlan.Pass,
        of plan: RenderPlan,
        from base: PixelBuffer,
        deadline: RenderDeadline
    ) throws(ImageError) -> [EncodedImage]? {
        try VipsRuntime.start()
        let stop = VipsImage.Stop(deadline)
        do throws(VipsError) {
            return try VipsMessages.collecting { () throws(VipsError) in
                let image = try base.image()
                let images = try withExtendedLifetime(stop) { () throws(VipsError) in
                    try render(pass, plan, base: image, stop)
                }
                return images.map { image in
                    var image = image
                    image.notes = plan.probe.notes
                    return image
                }
            }
        } catch {
            if let ended = deadline.error ?? error.cause { throw ended }
            return nil
        }
    }

    /// - Parameter damage: Damage of a JPEG, if it has been found already.
    func rendering(
        _ pass: RenderPlan.Pass,
        _ plan: RenderPlan,
        _ data: Data,
        damage: JPEGDamage?,
        _ deadline: RenderDeadline
    ) throws(ImageError) -> [EncodedImage] {
        let stop = VipsImage.Stop(deadline)
        let source = DamagedSource(data: data, type: plan.probe.type, damage: damage)
        let (images, notes) = try source.decoding(pass.failOn, until: deadline) { source throws(VipsError) in
            try withExtendedLifetime(stop) { () throws(VipsError) in try render(pass, plan, source, stop) }
        }
        return images.map { image in
            var image = image
            image.notes = notes
            return image
        }
    }

    package func image(
        _ plan: RenderPlan,
        _ data: Data,
        deadline: RenderDeadline
    ) throws(ImageError) -> PlatformImage {
        try image(plan, data, failOn: plan.passes[0].failOn, orientation: nil, deadline: deadline)
    }

    /// - Parameters:
    ///   - failOn: The least damage that is an error.
    ///   - orientation: EXIF orientation to use instead of the image's own.
    package func image(
        _ plan: RenderPlan,
        _ data: Data,
        failOn: Rendition.FailOn,
        orientation: Int?,
        deadline: RenderDeadline
    ) throws(ImageError) -> PlatformImage {
        let stop = VipsImage.Stop(deadline)
        let source = DamagedSource(data: data, type: plan.probe.type)
        return try source.decoding(failOn, until: deadline) { source throws(VipsError) in
            let pass = plan.passes[0]
            var image = try source.open(Self.loadOptions(plan, pass))
            if let orientation { image = try image.oriented(orientation) }
            image = try image.thumbnail(pass.base)
            return PlatformImage(
                inMemory: try withExtendedLifetime(stop) { () throws(VipsError) in
                    try image.eightBit().keeping([]).inMemory(stop: stop)
                },
                isAsDecoded: pass.base == plan.probe.uprightSize
            )
        }.value
    }

    // MARK: - Rendering

    private func render(
        _ pass: RenderPlan.Pass,
        _ plan: RenderPlan,
        _ source: DecodingAttempt.Source,
        _ limit: VipsImage.Stop
    ) throws(VipsError) -> [EncodedImage] {
        let opened = try source.open(Self.loadOptions(plan, pass))
        let (first, plan, pass) = try trimmed(opened, pass, plan, limit)
        return try render(pass, plan, base: first, limit)
    }

    /// - Parameter first: the upright source at the base of the pass.
    private func render(
        _ pass: RenderPlan.Pass,
        _ plan: RenderPlan,
        base first: VipsImage,
        _ limit: VipsImage.Stop
    ) throws(VipsError) -> [EncodedImage] {
        let sampler = PixelSampler()
        var base = first
        if pass.steps.count > 1 {
            // Without the profile: colors are sRGB already and must not be converted again.
            let bare = try first.keeping(pass.keepsProfile ? [.copyright, .profile] : .copyright)
            base = try sampler.sampling(bare, of: plan.probe.uprightSize)
                .inMemory(stop: limit)
                .readInOrder()
        }
        var pyramid = VipsPyramid(base, pass)
        var images: [Int: EncodedImage] = [:]
        for index in plan.fromLargeToSmall(pass) {
            let step = plan.steps[index]
            let image = try arrange(try pyramid.make(step.scaled, limit), step, plan, sampler, limit)
            var rendition = step.rendition
            if !pass.keepsProfile { rendition.profile = .srgb }
            let (data, score) = try image.encode(rendition, stop: limit)
            images[index] = EncodedImage(data: data, size: image.size, score: score)
        }
        let pixels = sampler.image.map(PixelFacts.init)
        return pass.steps.compactMap { index in
            images[index].map { image in
                var image = image
                image.pixels = pixels
                return image
            }
        }
    }

    /// The upright source at the base of a pass. If the pass trims it, the part that remains, at the base of the plan
    /// for this part.
    private func trimmed(
        _ opened: VipsImage,
        _ pass: RenderPlan.Pass,
        _ plan: RenderPlan,
        _ limit: VipsImage.Stop
    ) throws(VipsError) -> (VipsImage, RenderPlan, RenderPlan.Pass) {
        let upright = try opened.thumbnail(pass.base, in: pass, limit)
        guard let tolerance = pass.trim else { return (upright, plan, pass) }
        let whole = try upright.eightBit().keeping(pass.keepsProfile ? [.copyright, .profile] : .copyright)
            .inMemory(stop: limit)
        let box = try whole.content(tolerance: tolerance) { limit.isExpired }
        let inner: RenderPlan
        do throws(ImageError) {
            inner = try plan.trimmed(pass, to: box)
        } catch {
            throw VipsError(error)
        }
        let part = try whole.mapFrames { frame throws(VipsError) in
            try frame.extract(box.left, box.top, box.size)
        }
        let base = try part.readInOrder().thumbnail(inner.passes[0].base, in: pass, limit)
        return (base, inner, inner.passes[0])
    }

    private func arrange(
        _ scaled: VipsImage,
        _ step: RenderPlan.Step,
        _ plan: RenderPlan,
        _ sampler: PixelSampler,
        _ limit: VipsImage.Stop
    ) throws(VipsError) -> VipsImage {
        let isHeld = step.needsMemory || (!sampler.isUsed && step.isHeldForFacts)
        var image = try scaled.eightBit()
        // Encoding a crop reads only a part of an image that is not held.
        if isHeld || step.crop == nil { image = try sampler.sampling(image, of: plan.probe.uprightSize) }
        if isHeld { image = try image.inMemory(stop: limit) }
        let rendition = step.rendition
        image = try image.turned(by: rendition)
        if let crop = step.crop {
            let place = try place(of: crop, in: image)
            image = try image.mapFrames { frame throws(VipsError) in
                try frame.extract(place.left, place.top, crop.size)
            }
            image = try sampler.sampling(image, of: crop.size)
        }
        if !rendition.keepsAlpha { image = try image.flattened(rendition.background) }
        if let canvas = step.canvas {
            image = try image.surrounded(canvas, rendition.background) { size in
                ((canvas.width - size.width) / 2, (canvas.height - size.height) / 2)
            }
        }
        image = try image.filtered(by: rendition)
        if let padding = rendition.padding {
            image = try image.surrounded(step.output, rendition.background) { _ in (padding.left, padding.top) }
        }
        if let watermark = rendition.watermark {
            let mark = try WatermarkDrawing(watermark, on: step.output, isGray: image.bands <= 2, stop: limit)
            image = try image.mapFrames { frame throws(VipsError) in try mark.draw(on: frame) }
        }
        return image
    }

    /// The top left corner of the crop. All frames use that of the first frame.
    private func place(
        of crop: RenderPlan.Crop,
        in image: VipsImage
    ) throws(VipsError) -> (left: Int, top: Int) {
        switch crop.place {
        case .at(let left, let top): return (left, top)
        case .attention, .entropy:
            let frame = image.frames > 1 ? try image.extract(0, 0, image.size) : image
            return try frame.interestingPlace(crop.size, byEntropy: crop.place == .entropy)
        }
    }

    /// Loader options: the number of frames, or the factor for shrink-on-load.
    static func loadOptions(_ plan: RenderPlan, _ pass: RenderPlan.Pass) -> String {
        if pass.frames > 1 { return "n=\(pass.frames)" }
        switch plan.probe.type {
        case .jpeg:
            let shrink = plan.shrink(pass)
            return shrink > 1 ? "shrink=\(shrink)" : ""
        case .webp:
            guard !pass.isLinear, let margin = pass.qualityProfile.margin else { return "" }
            let scale = margin / plan.scale(pass)
            return scale < 1 ? "scale=\(scale)" : ""
        // SVG is drawn at the requested size, even if that is larger.
        case .svg:
            let scale = plan.scale(pass)
            return scale != 1 ? "scale=\(1 / scale)" : ""
        default: return ""
        }
    }
}

extension PixelBuffer {
    /// A copy as an image of libvips.
    fileprivate func image() throws(VipsError) -> VipsImage {
        let result: Result<VipsImage, VipsError> = bytes.withUnsafeBytes { bytes in
            do throws(VipsError) {
                return .success(try VipsImage.fromMemory(bytes, size, bands: bands))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }
}

extension VipsImage {
    /// Facts from the image's header.
    fileprivate func probe(_ type: AssetType, _ notes: [String]) -> ImageProbe {
        ImageProbe(
            type: type,
            width: width,
            height: height,
            bands: bands,
            frames: integer("n-pages", default: 1),
            orientation: orientation,
            isProgressive: integer("jpeg-multiscan", default: 0) == 1 || integer("interlaced", default: 0) == 1,
            sampleBytes: bytesPerSample,
            hasRGBProfile: hasProfile && isRGB,
            hasAlpha: hasAlpha,
            notes: notes
        )
    }
}

extension AssetType {
    /// The loaders of libvips that may open this type.
    fileprivate var loaders: Set<String> {
        switch self {
        case .heic, .avif: ["heifload_buffer"]
        default: ["\(description)load_buffer"]
        }
    }
}

extension Color {
    /// The color's channels; for gray images its luminance, with the weights of sRGB.
    package func channels(gray: Bool) -> [Double] {
        let rgb = [Double(red), Double(green), Double(blue)]
        return gray ? [(0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]).rounded()] : rgb
    }
}
