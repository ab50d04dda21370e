internal import Foundation

/// Dispatches each pass of a plan to the planes engine or to libvips, and lets planes decode for libvips if they can.
struct RoutingEngine: RenderEngine {
    private let vips = VipsEngine()
    private let planes: PlanesEngine
    private let pixels: PlanarPixels
    /// Whether passes that the planes engine cannot render are refused instead of left to libvips.
    private let isStrict: Bool
    let usesPlanes = true

    init(isStrict: Bool) {
        self.isStrict = isStrict
        planes = PlanesEngine()
        pixels = PlanarPixels(codecs: planes.codecs, axes: planes.axes)
    }

    /// Parses the headers of common JPEGs without libvips, which is slow at headers compared to a thumbnail's total
    /// time; most of it goes to EXIF fields.
    func probe(_ data: Data, type: AssetType) throws(ImageError) -> ImageProbe {
        guard type == .jpeg else { return try vips.probe(data, type: type) }
        try HeaderBounds.check(data, type)
        if let header = JPEGHeader(data) { return header.probe }
        return try vips.probe(data, type: type)
    }

    func render(
        _ pass: RenderPlan.Pass,
        of plan: RenderPlan,
        from data: Data,
        deadline: RenderDeadline
    ) throws(ImageError) -> [EncodedImage] {
        guard pass.usesPlanes else {
            if isStrict { throw refusal(pass, plan) }
            let gap = plan.hasPlanarPixels(pass) ? try knownDamage(pass, plan, data, deadline) : nil
            if deadline.isExpired, let error = deadline.error { throw error }
            if gap == nil, let decoded = pixels.decode(pass, of: plan, from: data) {
                // The decoders cannot be interrupted and may have used up the time limit.
                if deadline.isExpired, let error = deadline.error { throw error }
                if let images = try render(pass, of: plan, from: decoded, deadline: deadline) { return images }
            }
            return try vips.rendering(pass, plan, data, damage: gap, deadline)
        }
        let gap = try knownDamage(pass, plan, data, deadline)
        if gap == nil, let images = try planes.render(pass, of: plan, from: data, deadline: deadline) { return images }
        // The plane decoder cannot be interrupted and may have used up the time limit.
        if deadline.isExpired, let error = deadline.error { throw error }
        let damage = gap ?? JPEGDamage(examining: data, until: deadline)
        if let error = deadline.error { throw error }
        if let damage, !damage.isTolerated(by: pass.failOn) { throw damage.error }
        guard isStrict else {
            var images = try vips.rendering(pass, plan, data, damage: damage, deadline)
            for index in images.indices { images[index].maker = .libvipsForPlanes }
            return images
        }
        guard let damage, var images = try planes.render(pass, of: plan, from: data, isWhole: false, deadline: deadline)
        else { throw refusal(pass, plan) }
        for index in images.indices { images[index].notes.append(damage.note) }
        return images
    }

    /// Renders a pass from the planes of its source.
    ///
    /// - Returns: nil if that fails; libvips alone may still succeed.
    private func render(
        _ pass: RenderPlan.Pass,
        of plan: RenderPlan,
        from decoded: PlanarImage,
        deadline: RenderDeadline
    ) throws(ImageError) -> [EncodedImage]? {
        if plan.encodesPlanes(pass) { return try planes.render(pass, of: plan, from: decoded, deadline: deadline) }
        guard let base = pixels.base(of: pass, plan, from: decoded) else { return nil }
        return try vips.render(pass, of: plan, from: base, deadline: deadline)
    }

    func image(
        _ plan: RenderPlan,
        _ data: Data,
        deadline: RenderDeadline
    ) throws(ImageError) -> PlatformImage {
        try vips.image(plan, data, deadline: deadline)
    }

    /// Damage of a JPEG that its decoders may not report: missing scans, if the pass needs them, which libjpeg shows as
    /// gray, and impossible codes, if they are errors.
    private func knownDamage(
        _ pass: RenderPlan.Pass,
        _ plan: RenderPlan,
        _ data: Data,
        _ deadline: RenderDeadline
    ) throws(ImageError) -> JPEGDamage? {
        guard plan.probe.type == .jpeg, !plan.hasNeededScans(pass, in: data) else { return nil }
        if let missing = JPEGDamage(ofScansIn: data, plan.probe) { return missing }
        guard pass.failOn.isStrict else { return nil }
        let damage = JPEGDamage(examining: data, until: deadline)
        if let error = deadline.error { throw error }
        return damage
    }

    private func refusal(_ pass: RenderPlan.Pass, _ plan: RenderPlan) -> ImageError {
        if pass.usesPlanes {
            return ImageError(
                .corruptImage,
                "the planes engine cannot decode it. Use the engine auto, which leaves damaged images to libvips."
            )
        }
        let step = plan.steps[pass.steps[0]]
        let obstacle =
            plan.probe.planes == nil
            ? "the source is no JPEG of usual sampling in sRGB or gray" : step.reasonPlanesUnsupported(plan.probe) ?? ""
        return ImageError(
            .unsupportedFormat,
            "the planes engine cannot make \(step.rendition.name): \(obstacle). Use the engine auto, which leaves it "
                + "to libvips."
        )
    }
}

extension RenderEngineChoice {
    package var engine: any RenderEngine {
        switch self {
        case .auto: RoutingEngine(isStrict: false)
        case .vips: VipsEngine()
        case .planes: RoutingEngine(isStrict: true)
        }
    }
}
