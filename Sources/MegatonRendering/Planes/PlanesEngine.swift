internal import Foundation

/// Makes thumbnails of JPEGs without converting them to pixels: planes are decoded at a fraction of their size, scaled
/// separately, and encoded directly. This avoids color conversion, and processes a quarter to a half of the samples.
/// Planes of other images, which `PlanarPixels` decodes, are scaled and encoded in the same way.
///
/// libvips handles the rest: other formats and color spaces, crops by content (attention, entropy), canvases, effects
/// such as blur, and metadata. It also reports the details of damage.
final class PlanesEngine: Sendable {
    let codecs = TurboJPEGCodecs()
    let axes = PlaneAxes()

    /// - Parameters:
    ///   - pass: A pass that uses planes.
    ///   - isWhole: Whether damaged data is refused; otherwise missing parts are gray.
    /// - Returns: nil if the image is damaged or does not match its header, or if there is no memory.
    /// - Throws: `.renderTimedOut`, `.cancelled`.
    func render(
        _ pass: RenderPlan.Pass,
        of plan: RenderPlan,
        from data: Data,
        isWhole: Bool = true,
        deadline: RenderDeadline
    ) throws(ImageError) -> [EncodedImage]? {
        if deadline.isExpired, let error = deadline.error { throw error }
        guard let decoded = codecs.decode(pass, of: plan, from: data, isWhole: isWhole) else { return nil }
        return try render(pass, of: plan, from: decoded, deadline: deadline)
    }

    /// - Parameter decoded: the whole source, as stored.
    /// - Returns: nil if the encoder fails, or if there is no memory.
    /// - Throws: `.renderTimedOut`, `.cancelled`.
    func render(
        _ pass: RenderPlan.Pass,
        of plan: RenderPlan,
        from decoded: PlanarImage,
        deadline: RenderDeadline
    ) throws(ImageError) -> [EncodedImage]? {
        let orientation = EXIFOrientation(plan.probe.orientation)
        let pixels = PixelFacts(SmallImage(decoded, orientation))
        var pyramid = PlanePyramid(decoded, pass, orientation)
        var images: [Int: EncodedImage] = [:]
        for index in plan.fromLargeToSmall(pass) {
            let step = plan.steps[index]
            if deadline.isExpired, let error = deadline.error { throw error }
            guard let image = pyramid.make(step, axes) else { return nil }
            guard let bytes = try encode(image, step.rendition, deadline) else {
                if let error = deadline.error { throw error }
                return nil
            }
            images[index] = EncodedImage(
                data: bytes,
                size: image.size,
                maker: .planes,
                notes: plan.probe.notes,
                pixels: pixels
            )
        }
        return pass.steps.compactMap { images[$0] }
    }

    /// Why an encoding within `maxBytes` has no result.
    private enum Failure: Error {
        case tooLarge(ImageError)
        /// The encoder fails, or there is no memory.
        case encoder
    }

    /// Encodes the planes of an upright image, at a lower quality if it has more than the `maxBytes` of the rendition.
    ///
    /// - Returns: nil if the encoder fails, or if there is no memory.
    /// - Throws: `.outputTooLarge`.
    func encode(
        _ image: PlanarImage,
        _ rendition: Rendition,
        _ deadline: RenderDeadline
    ) throws(ImageError) -> Data? {
        if rendition.maxBytes == nil { return encodeOnce(image, rendition, deadline) }
        do throws(Failure) {
            return try EncodedSize.fit(rendition, tooLarge: { .tooLarge($0) }) { rendition throws(Failure) in
                guard let data = encodeOnce(image, rendition, deadline) else { throw .encoder }
                return data
            }
        } catch {
            if case .tooLarge(let error) = error { throw error }
            return nil
        }
    }

    private func encodeOnce(_ image: PlanarImage, _ rendition: Rendition, _ deadline: RenderDeadline) -> Data? {
        let isWebP = rendition.format == .webp
        let sampling = rendition.planeSampling(image.isGray(on: rendition.background) ? .gray : image.sampling)
        guard let image = image.converted(to: isWebP ? .video : .full, rendition.background, sampling) else {
            return nil
        }
        return isWebP ? WebPPlanes.encode(image, rendition, deadline) : JPEGPlanes.encode(image, rendition, deadline)
    }
}

// The stages of a render with one rendition.
extension PlanesEngine {
    /// Decodes the source of a plan's first pass, shrunk by a fraction; nil as in `render`.
    func load(_ plan: RenderPlan, _ data: Data) -> PlanarImage? { codecs.decode(plan.passes[0], of: plan, from: data) }

    /// Turns the decoded planes upright and scales them to the size of the plan's first step.
    func scale(_ image: PlanarImage, _ plan: RenderPlan) -> PlanarImage? {
        var pyramid = PlanePyramid(image, plan.passes[0], EXIFOrientation(plan.probe.orientation))
        return pyramid.make(plan.steps[0], axes)
    }
}

extension RenderPlan.Step {
    /// Why the planes engine cannot make this rendition; nil if it can, given a source with planes.
    func reasonPlanesUnsupported(_ probe: ImageProbe) -> String? {
        switch rendition.format {
        case .jpeg: break
        case .webp: if rendition.lossless { return "lossless WebP needs pixels" }
        case .png, .avif, .gif, .jxl: return "\(rendition.format.rawValue) needs pixels"
        }
        if rendition.keepMetadata != .none { return "metadata is kept" }
        if rendition.profile == .keep && probe.hasRGBProfile { return "the profile is kept" }
        if rendition.linear { return "linear light needs pixels" }
        if rendition.targetScore != nil { return "a score needs pixels" }
        if canvas != nil { return "it has a canvas" }
        if let effect = rendition.effectName { return "\(effect) needs pixels" }
        if probe.hasAlpha && rendition.keepsAlpha { return "transparent pixels are kept" }
        switch crop?.place {
        case .attention, .entropy: return "the crop depends on the pixels"
        case .at, nil: return nil
        }
    }
}

extension Rendition {
    /// Sampling of a result from planes: by default chroma at half size except for high-quality JPEGs, as in libvips.
    func planeSampling(_ source: ChromaSampling) -> ChromaSampling {
        if source == .gray { return .gray }
        if let chroma { return chroma == .s420 ? .s420 : .s444 }
        return format == .jpeg && quality >= 90 ? .s444 : .s420
    }
}
