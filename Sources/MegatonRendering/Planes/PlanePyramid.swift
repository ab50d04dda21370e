/// The image pyramid of one pass, as stored: the decoded planes, and the results kept as sources for smaller ones. Each
/// result is made from the smallest level that leaves a scaling factor of at least two.
struct PlanePyramid {
    private var rungs: [PlanarImage]
    private let orientation: EXIFOrientation
    private let pass: RenderPlan.Pass

    init(_ decoded: PlanarImage, _ pass: RenderPlan.Pass, _ orientation: EXIFOrientation) {
        rungs = [decoded]
        self.orientation = orientation
        self.pass = pass
    }

    /// The result of a step, upright and cropped.
    ///
    /// - Returns: nil if zimg fails, or if there is no memory.
    mutating func make(_ step: RenderPlan.Step, _ graphs: ZimgGraphs) -> PlanarImage? {
        let sampling = step.planeSampling(rungs[0].sampling)
        let source = source(step, sampling)
        var planes: [Plane] = []
        for (index, plane) in source.planes.enumerated() {
            let geometry = PlaneGeometry(plane: index, of: step, from: source, orientation, to: sampling)
            guard geometry.source.width <= plane.width, geometry.source.height <= plane.height,
                let scaled = graphs.graph(geometry)?.scale(plane)
            else { return nil }
            planes.append(scaled)
        }
        let size = orientation.turned(step.output)
        let made = PlanarImage(
            width: Double(size.width),
            height: Double(size.height),
            sampling: sampling,
            planes: planes
        )
        if isRung(made, step) { rungs.append(made) }
        return upright(made)
    }

    /// The smallest level that is large enough, with chroma at least as fine as the result's.
    private func source(_ step: RenderPlan.Step, _ sampling: ChromaSampling) -> PlanarImage {
        guard let margin = pass.ladderMargin else { return rungs[0] }
        let size = orientation.turned(step.scaled)
        let large = rungs.dropFirst().filter { rung in
            rung.width >= margin * Double(size.width) && rung.height >= margin * Double(size.height)
                && rung.sampling.horizontal <= sampling.horizontal && rung.sampling.vertical <= sampling.vertical
        }
        return large.min { $0.area < $1.area } ?? rungs[0]
    }

    /// Whether the result becomes a level: it must show the whole source from the first sample on, without padding at
    /// its start.
    private func isRung(_ made: PlanarImage, _ step: RenderPlan.Step) -> Bool {
        guard step.crop == nil, pass.isRung(made.area, below: rungs[rungs.count - 1].area) else { return false }
        let isMirrored = orientation.mirrorsColumns || orientation.mirrorsRows
        return !isMirrored || (step.output.width.isMultiple(of: 2) && step.output.height.isMultiple(of: 2))
    }

    private func upright(_ picture: PlanarImage) -> PlanarImage? {
        let planes = picture.planes.compactMap { $0.turned(orientation) }
        guard planes.count == picture.planes.count else { return nil }
        let isTurned = orientation.swapsAxes
        return PlanarImage(
            width: isTurned ? picture.height : picture.width,
            height: isTurned ? picture.width : picture.height,
            sampling: picture.sampling,
            planes: planes
        )
    }
}

extension PlanarImage {
    fileprivate var area: Double { width * height }
}
