package import Foundation

/// The sizes that a render computes for a source whose header is known. Geometry only, no pixels.
///
/// If a size that follows from the source's aspect would exceed the output limits, it is reduced with the aspect kept.
/// A size that the client requested explicitly stays as it is; `RenderLimits.check` refuses it.
package struct RenderPlan: Equatable {
    /// A region cut out of the scaled image.
    struct Crop: Equatable {
        enum Place: Equatable {
            case at(left: Int, top: Int)
            case attention, entropy
        }

        var size: PixelSize
        var place: Place
    }

    /// How one rendition is made from the upright source.
    struct Step: Equatable {
        let rendition: Rendition
        /// Number of frames in the result.
        var frames: Int
        /// Size of the whole upright source after scaling, before the rotation of the rendition.
        var scaled: PixelSize
        /// Region cut out of the rotated image.
        var crop: Crop?
        /// Size of the canvas on which the image is centered, padded with the background.
        var canvas: PixelSize?
        /// Maximum number of pixels of the result, without padding, if the source is trimmed: its size is known only
        /// when it has been decoded.
        var trimmedArea: Int?

        /// Size of the result without padding, in pixels.
        var content: PixelSize { canvas ?? crop?.size ?? scaled.turned(by: rendition) }
        /// Size of the result, in pixels.
        var output: PixelSize { content.padded(by: rendition.padding) }
    }

    /// One decode of the source and the steps that share it.
    package struct Pass: Equatable {
        /// Number of frames that are decoded.
        let frames: Int
        /// Whether colors stay in the source's profile.
        let keepsProfile: Bool
        let qualityProfile: Rendition.QualityProfile
        /// Whether images are scaled in linear light.
        let isLinear: Bool
        /// Whether the pass works on the source's planes instead of its pixels.
        let usesPlanes: Bool
        /// The least damage that is an error.
        let failOn: Rendition.FailOn
        /// Tolerance for borders that are removed; nil if none are.
        let trim: Int?
        /// Indices into `steps`.
        let steps: [Int]
        /// The smallest size from which every step can be reached by shrinking; the source's own if it is trimmed.
        let base: PixelSize
    }

    package let probe: ImageProbe
    let steps: [Step]
    /// Usually one. Renditions need separate passes if they mix stills and animations, color profiles, linear light,
    /// damage levels, tolerances of trimming, or outputs that planes can and cannot produce.
    let passes: [Pass]
    let limits: RenderLimits

    init(_ probe: ImageProbe, _ renditions: [Rendition], limits: RenderLimits = RenderLimits()) {
        self.probe = probe
        self.limits = limits
        let steps = renditions.map { Self.step($0, probe, limits) }
        self.steps = steps
        let kinds = steps.map { step in
            PassKind(
                frames: step.frames,
                keepsProfile: probe.hasRGBProfile && step.rendition.profile == .keep,
                qualityProfile: step.rendition.qualityProfile,
                isLinear: step.rendition.linear,
                usesPlanes: probe.planes != nil && step.reasonPlanesUnsupported(probe) == nil,
                failOn: step.rendition.toleratedDamage,
                trim: step.rendition.trim
            )
        }
        passes = kinds.uniqued().map { kind in
            let members = steps.indices.filter { kinds[$0] == kind }
            // Borders are found in the whole source.
            let least = kind.trim == nil ? PixelSize(width: 1, height: 1) : probe.uprightSize
            let base = members.reduce(least) { base, index in
                if kind.trim != nil { return base }
                let scaled = steps[index].scaled
                return PixelSize(width: max(base.width, scaled.width), height: max(base.height, scaled.height))
            }
            return Pass(
                frames: kind.frames,
                keepsProfile: kind.keepsProfile,
                qualityProfile: kind.qualityProfile,
                isLinear: kind.isLinear,
                usesPlanes: kind.usesPlanes,
                failOn: kind.failOn,
                trim: kind.trim,
                steps: members,
                base: base
            )
        }
    }

    /// Plans an in-memory image of the first frame, at full size or as a thumbnail.
    package init(decoding probe: ImageProbe, as thumbnail: ThumbnailOptions?) {
        self.probe = probe
        limits = RenderLimits()
        steps = []
        let source = probe.uprightSize
        var base = source
        if let thumbnail {
            let horizontal = Double(max(1, thumbnail.size.width)) / Double(source.width)
            let vertical = Double(max(1, thumbnail.size.height)) / Double(source.height)
            let fill = thumbnail.contentMode == .aspectFill
            let scale = min(1, fill ? max(horizontal, vertical) : min(horizontal, vertical))
            base = Self.size(source, scale, scale)
        }
        passes = [
            Pass(
                frames: 1,
                keepsProfile: false,
                qualityProfile: .balanced,
                isLinear: false,
                usesPlanes: false,
                failOn: .truncated,
                trim: nil,
                steps: [],
                base: base
            )
        ]
    }

    private struct PassKind: Hashable {
        let frames: Int
        let keepsProfile: Bool
        let qualityProfile: Rendition.QualityProfile
        let isLinear: Bool
        let usesPlanes: Bool
        let failOn: Rendition.FailOn
        let trim: Int?
    }

    // MARK: - Geometry

    private static func step(_ rendition: Rendition, _ probe: ImageProbe, _ limits: RenderLimits) -> Step {
        // The size is that of the rotated image.
        let source = probe.uprightSize.turned(by: rendition)
        var step = fitted(rendition, source, probe, limits)
        step.scaled = step.scaled.turned(by: rendition)
        if rendition.trim != nil {
            step.trimmedArea = Target(rendition, source, limits).trimmedArea(rendition, source, limits)
        }
        return step
    }

    /// The step for a source that is rotated already.
    private static func fitted(
        _ rendition: Rendition,
        _ source: PixelSize,
        _ probe: ImageProbe,
        _ limits: RenderLimits
    ) -> Step {
        let frames = rendition.animated && rendition.format.hasFrames && probe.isAnimated ? probe.frames : 1
        let target = Target(rendition, source, limits)
        let horizontal = target.width.map { Double($0) / Double(source.width) }
        let vertical = target.height.map { Double($0) / Double(source.height) }
        let most = rendition.enlarge ? Double.infinity : 1
        func step(_ scaled: PixelSize) -> Step { Step(rendition: rendition, frames: frames, scaled: scaled) }
        switch target.fit {
        // `auto` is none of the resolved fits.
        case .inside, .auto:
            let scale = min(horizontal ?? .infinity, vertical ?? .infinity, most)
            return step(clamped(source, scale, frames, limits))
        case .outside:
            let scale = min(max(horizontal ?? 0, vertical ?? 0), most)
            return step(clamped(source, scale, frames, limits))
        case .fill:
            return step(size(source, min(horizontal ?? 1, most), min(vertical ?? 1, most)))
        case .contain:
            let scale = min(horizontal ?? .infinity, vertical ?? .infinity, most)
            var step = step(size(source, scale, scale))
            let canvas = PixelSize(width: target.width ?? 1, height: target.height ?? 1)
            step.canvas = canvas == step.scaled ? nil : canvas
            return step
        case .cover:
            return cover(target, source, max(horizontal ?? 0, vertical ?? 0), step(source))
        }
    }

    /// If the source is smaller than the target and must not be enlarged, crops the target's aspect at the source's own
    /// scale, as Nuke 13.2 does.
    private static func cover(_ target: Target, _ source: PixelSize, _ scale: Double, _ step: Step) -> Step {
        let wanted = PixelSize(width: target.width ?? 1, height: target.height ?? 1)
        let most = step.rendition.enlarge ? Double.infinity : 1
        let shrink =
            step.rendition.enlarge
            ? 1
            : min(
                1,
                Double(source.width) / Double(wanted.width),
                Double(source.height) / Double(wanted.height)
            )
        let crop = PixelSize(
            width: max(1, Int((Double(wanted.width) * shrink).rounded())),
            height: max(1, Int((Double(wanted.height) * shrink).rounded()))
        )
        var step = step
        step.scaled = size(source, min(scale, most), min(scale, most))
        // Rounding must not leave the scaled image a pixel smaller than the crop.
        step.scaled.width = max(step.scaled.width, crop.width)
        step.scaled.height = max(step.scaled.height, crop.height)
        if crop != step.scaled { step.crop = Crop(size: crop, place: place(of: crop, in: step)) }
        return step
    }

    private static func place(of crop: PixelSize, in step: Step) -> Crop.Place {
        let left = (width: step.scaled.width - crop.width, height: step.scaled.height - crop.height)
        if let focus = step.rendition.focus?.turned(by: step.rendition) {
            let x = (focus.x * Double(step.scaled.width) - Double(crop.width) / 2).rounded()
            let y = (focus.y * Double(step.scaled.height) - Double(crop.height) / 2).rounded()
            return .at(left: min(max(0, Int(x)), left.width), top: min(max(0, Int(y)), left.height))
        }
        guard let halves = step.rendition.gravity.halves else {
            return step.rendition.gravity == .entropy ? .entropy : .attention
        }
        return .at(left: left.width * halves.horizontal / 2, top: left.height * halves.vertical / 2)
    }

    /// The scaled size of the source, reduced further if it would exceed the output limits.
    private static func clamped(
        _ source: PixelSize,
        _ scale: Double,
        _ frames: Int,
        _ limits: RenderLimits
    ) -> PixelSize {
        let (width, height) = (Double(source.width) * scale, Double(source.height) * scale)
        let most = Double(limits.outputPixels / max(1, frames))
        let factor = min(
            Double(limits.outputSide) / width,
            Double(limits.outputSide) / height,
            (most / (width * height)).squareRoot()
        )
        let rounded = size(source, scale, scale)
        // Rounding up can also exceed the limit.
        if factor >= 1 && Double(rounded.width * rounded.height) <= most { return rounded }
        let shrink = min(1, factor)
        return PixelSize(width: max(1, Int(width * shrink)), height: max(1, Int(height * shrink)))
    }

    private static func size(_ source: PixelSize, _ horizontal: Double, _ vertical: Double) -> PixelSize {
        PixelSize(
            width: max(1, Int((Double(source.width) * horizontal).rounded())),
            height: max(1, Int((Double(source.height) * vertical).rounded()))
        )
    }
}

/// The requested sides, in pixels of the result.
private struct Target {
    let width: Int?
    let height: Int?
    /// The fit with which the source is rendered: `auto` is `cover` or `inside`, as in imgproxy.
    let fit: Rendition.Fit

    /// A device pixel ratio that would exceed the limits is reduced; the aspect stays. Within or around the sides, the
    /// size follows from the source's aspect, and is compared with the limits itself.
    init(_ rendition: Rendition, _ source: PixelSize, _ limits: RenderLimits) {
        var fit = rendition.fit
        if fit == .auto, let width = rendition.width, let height = rendition.height {
            fit = (source.width >= source.height) == (width >= height) ? .cover : .inside
        }
        self.fit = fit
        guard rendition.dpr > 1 else {
            (width, height) = (rendition.width, rendition.height)
            return
        }
        if [.inside, .outside, .auto].contains(fit) {
            func scaled(_ side: Int) -> Int { Int((Double(side) * rendition.dpr).rounded()) }
            (width, height) = (rendition.width.map(scaled), rendition.height.map(scaled))
            return
        }
        var ratio = rendition.dpr
        for side in [rendition.width, rendition.height] {
            if let side { ratio = min(ratio, Double(limits.outputSide) / Double(side)) }
        }
        if let width = rendition.width, let height = rendition.height {
            ratio = min(ratio, (Double(limits.outputPixels) / (Double(width) * Double(height))).squareRoot())
        }
        ratio = max(1, ratio)
        let rule: FloatingPointRoundingRule = ratio == rendition.dpr ? .toNearestOrAwayFromZero : .down
        func scaled(_ side: Int) -> Int { Int((Double(side) * ratio).rounded(rule)) }
        (width, height) = (rendition.width.map(scaled), rendition.height.map(scaled))
    }

    /// Maximum number of pixels of the result of any part of the source.
    func trimmedArea(_ rendition: Rendition, _ source: PixelSize, _ limits: RenderLimits) -> Int {
        if let width, let height, rendition.fit != .outside { return min(width * height, limits.outputPixels) }
        return rendition.enlarge ? limits.outputPixels : min(source.width * source.height, limits.outputPixels)
    }
}

extension RenderPlan {
    /// Reads the header, and plans renditions that are within the limits.
    package init(
        probing data: Data,
        _ type: AssetType,
        _ renditions: [Rendition],
        _ engine: any RenderEngine,
        _ limits: RenderLimits
    ) throws(ImageError) {
        try self.init(checking: limits.probe(data, type, engine), renditions, limits)
    }

    /// Plans renditions that are within the limits.
    init(checking probe: ImageProbe, _ renditions: [Rendition], _ limits: RenderLimits) throws(ImageError) {
        try limits.check(probe)
        self.init(probe, renditions, limits: limits)
        for pass in passes { try limits.check(probe, frames: pass.frames) }
        try limits.check(self)
    }
}

extension RenderPlan {
    /// Source pixels for each pixel of the base, along the side that shrinks less.
    func scale(_ pass: Pass) -> Double {
        let source = probe.uprightSize
        return min(
            Double(source.width) / Double(pass.base.width),
            Double(source.height) / Double(pass.base.height)
        )
    }

    /// The factor (1, 2, 4 or 8) by which a JPEG is shrunk while it is decoded. A smaller inverse transform skips most
    /// of the decoding work. It averages samples of sRGB, so that nothing would be left for linear light.
    func shrink(_ pass: Pass) -> Int {
        guard !pass.isLinear, let margin = decodingMargin(pass) else { return 1 }
        let scale = scale(pass)
        return [8, 4, 2].first { scale >= Double($0) * margin } ?? 1
    }

    /// Minimum ratio of the decoded size of a JPEG to the base; nil for no shrinking.
    private func decodingMargin(_ pass: Pass) -> Double? {
        let margin = pass.qualityProfile.margin
        let isRough =
            pass.usesPlanes
            && pass.steps.allSatisfy { index in
                let rendition = steps[index].rendition
                return rendition.format == .jpeg && rendition.quality <= Self.highestRoughQuality
            }
        return isRough ? margin.map { min($0, Self.roughMargin) } : margin
    }

    /// The margin of `balanced` for JPEGs from planes whose quantization hides the difference: they are closer to the
    /// source than those of libvips with a margin of two. WebP is as close, and PNG is not.
    private static let roughMargin = 1.5
    private static let highestRoughQuality = 90
}

// A pass with several sizes makes small renditions from larger ones: an image pyramid.
extension RenderPlan {
    /// Steps of a pass, widest first.
    func fromLargeToSmall(_ pass: Pass) -> [Int] {
        pass.steps.sorted { steps[$0].scaled.width > steps[$1].scaled.width }
    }
}

extension RenderPlan.Pass {
    /// How many times larger than a result its pyramid level must be; nil if every result is made from the decoded
    /// image.
    ///
    /// At least 2, even if the decoder needs no margin, because the losses of successive scalings add up.
    var pyramidMargin: Double? { steps.count > 1 ? qualityProfile.margin.map { max(2, $0) } : nil }

    /// Whether a result becomes a level of the pyramid. Each level has at most half the area of the last one, so all
    /// levels together are no larger than the decoded image, for any number of sizes.
    ///
    /// - Parameters: Areas in pixels.
    func isLevel(_ area: Double, below last: Double) -> Bool { pyramidMargin != nil && area * 2 <= last }
}
