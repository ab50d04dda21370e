/// The image pyramid of one pass, as stored: the decoded planes, and the results kept as sources for smaller ones. Each
/// result is made from the smallest level that leaves a scaling factor of at least two.
struct PlanePyramid {
    private var levels: [PlanarImage]
    private let orientation: EXIFOrientation
    private let pass: RenderPlan.Pass

    init(_ decoded: PlanarImage, _ pass: RenderPlan.Pass, _ orientation: EXIFOrientation) {
        levels = [decoded]
        self.orientation = orientation
        self.pass = pass
    }

    /// The result of a step, upright and cropped.
    ///
    /// - Returns: nil if there is no memory.
    mutating func make(_ step: RenderPlan.Step, _ axes: PlaneAxes) -> PlanarImage? {
        let (colors, whole) = (levels[0].colors, levels[0].sampling)
        // Channels get their sampling when they are converted for the encoder.
        let sampling = colors == .channels ? whole : step.rendition.planeSampling(whole)
        let source = source(step, sampling)
        var planes: [Plane] = []
        for (index, plane) in source.planes.enumerated() {
            let geometry = PlaneGeometry(plane: index, of: step, from: source, orientation, to: sampling)
            guard geometry.source.width <= plane.width, geometry.source.height <= plane.height,
                let scaled = axes.scale(plane, geometry)
            else { return nil }
            planes.append(scaled)
        }
        let size = orientation.turned(step.output)
        let made = PlanarImage(
            width: Double(size.width),
            height: Double(size.height),
            sampling: sampling,
            planes: planes,
            colors: colors
        )
        if isLevel(made, step) { levels.append(made) }
        return upright(made)
    }

    /// The smallest level that is large enough, with chroma at least as fine as the result's.
    private func source(_ step: RenderPlan.Step, _ sampling: ChromaSampling) -> PlanarImage {
        guard let margin = pass.pyramidMargin else { return levels[0] }
        let size = orientation.turned(step.scaled)
        let large = levels.dropFirst().filter { level in
            level.width >= margin * Double(size.width) && level.height >= margin * Double(size.height)
                && level.sampling.horizontal <= sampling.horizontal && level.sampling.vertical <= sampling.vertical
        }
        return large.min { $0.area < $1.area } ?? levels[0]
    }

    /// Whether the result becomes a level: it must show the whole source from the first sample on, without padding at
    /// its start.
    private func isLevel(_ made: PlanarImage, _ step: RenderPlan.Step) -> Bool {
        guard step.crop == nil, pass.isLevel(made.area, below: levels[levels.count - 1].area) else { return false }
        let isMirrored = orientation.mirrorsColumns || orientation.mirrorsRows
        return !isMirrored || (step.output.width.isMultiple(of: 2) && step.output.height.isMultiple(of: 2))
    }

    private func upright(_ image: PlanarImage) -> PlanarImage? {
        let planes = image.planes.compactMap { $0.turned(orientation) }
        guard planes.count == image.planes.count else { return nil }
        let isTurned = orientation.swapsAxes
        return PlanarImage(
            width: isTurned ? image.height : image.width,
            height: isTurned ? image.width : image.height,
            sampling: image.sampling,
            planes: planes,
            colors: image.colors
        )
    }
}

extension PlanarImage {
    fileprivate var area: Double { width * height }
}
