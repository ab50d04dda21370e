/// What is to be done with a picture whose header is known: sizes only, no pixels.
///
/// Never enlarges: a rendition of a smaller source is as large as the source.
struct RenderPlan: Equatable {
    /// One rendition's way from the upright source.
    struct Step: Equatable {
        let rendition: Rendition
        /// The whole source scaled.
        var scaled: PixelSize
        /// What is cut out of the middle of `scaled`.
        var crop: PixelSize?
        /// What is filled up around it.
        var canvas: PixelSize?

        /// The size of the result.
        var output: PixelSize { canvas ?? crop ?? scaled }
    }

    let probe: ImageProbe
    let steps: [Step]

    /// The smallest size from which every step can be reached by shrinking.
    let base: PixelSize

    init(_ probe: ImageProbe, _ renditions: [Rendition]) {
        self.probe = probe
        let source = probe.uprightSize
        steps = renditions.map { Self.step($0, source) }
        base = steps.reduce(PixelSize(width: 1, height: 1)) { base, step in
            PixelSize(width: max(base.width, step.scaled.width), height: max(base.height, step.scaled.height))
        }
    }

    private static func step(_ rendition: Rendition, _ source: PixelSize) -> Step {
        let (width, height) = (Double(source.width), Double(source.height))
        let horizontal = rendition.width.map { Double($0) / width }
        let vertical = rendition.height.map { Double($0) / height }
        switch rendition.fit {
        case .inside:
            let scale = min(horizontal ?? .infinity, vertical ?? .infinity, 1)
            return Step(rendition: rendition, scaled: size(source, scale, scale))
        case .outside:
            let scale = min(max(horizontal ?? 0, vertical ?? 0), 1)
            return Step(rendition: rendition, scaled: size(source, scale, scale))
        case .fill:
            return Step(
                rendition: rendition,
                scaled: size(source, min(horizontal ?? 1, 1), min(vertical ?? 1, 1))
            )
        case .contain:
            let scale = min(horizontal ?? .infinity, vertical ?? .infinity, 1)
            let canvas = PixelSize(width: rendition.width ?? 1, height: rendition.height ?? 1)
            let scaled = size(source, scale, scale)
            return Step(rendition: rendition, scaled: scaled, canvas: canvas == scaled ? nil : canvas)
        case .cover:
            return cover(rendition, source, max(horizontal ?? 0, vertical ?? 0))
        }
    }

    /// Where the source is too small to be covered without enlarging, the wanted aspect is cut out of it at its own
    /// size, as Nuke 13.2 does.
    private static func cover(_ rendition: Rendition, _ source: PixelSize, _ scale: Double) -> Step {
        let wanted = PixelSize(width: rendition.width ?? 1, height: rendition.height ?? 1)
        let shrink = min(
            1,
            Double(source.width) / Double(wanted.width),
            Double(source.height) / Double(wanted.height)
        )
        let crop = PixelSize(
            width: max(1, Int((Double(wanted.width) * shrink).rounded())),
            height: max(1, Int((Double(wanted.height) * shrink).rounded()))
        )
        var scaled = size(source, min(scale, 1), min(scale, 1))
        // Rounding must not leave the scaled picture a pixel short of what is cut out of it.
        scaled.width = max(scaled.width, crop.width)
        scaled.height = max(scaled.height, crop.height)
        return Step(rendition: rendition, scaled: scaled, crop: crop == scaled ? nil : crop)
    }

    private static func size(_ source: PixelSize, _ horizontal: Double, _ vertical: Double) -> PixelSize {
        PixelSize(
            width: max(1, Int((Double(source.width) * horizontal).rounded())),
            height: max(1, Int((Double(source.height) * vertical).rounded()))
        )
    }
}
