extension Rendition {
    static let blurs = 0.3...100.0
    static let sharpenings = 0.1...10.0
    static let tolerances = 0...255
    /// Sigma of `sharpen` if only true is given.
    package static let mildSharpening = 0.5
    /// Tolerance of `trim` if only true is given.
    package static let usualTolerance = 10

    /// Whether transparent pixels stay transparent.
    var keepsAlpha: Bool { format.hasAlpha && !flatten }

    /// The first option that is set among those that change pixels after they have been decoded; nil if none is.
    var effectName: String? {
        let effects: [(name: String, isSet: Bool)] = [
            ("trim", trim != nil), ("rotate", rotate != nil), ("flip", flip != nil), ("blur", blur != nil),
            ("sharpen", sharpen != nil), ("grayscale", grayscale), ("padding", padding != nil),
            ("watermark", watermark != nil),
        ]
        return effects.first(where: \.isSet)?.name
    }

    /// The first invalid option among those that change pixels after they have been decoded, or nil.
    var effectProblem: FieldProblem? {
        if let blur, !Self.blurs.contains(blur) {
            return FieldProblem("blur", "is \(blur); allowed are numbers from 0.3 to 100")
        }
        if let sharpen, !Self.sharpenings.contains(sharpen) {
            return FieldProblem("sharpen", "is \(sharpen); allowed are true and numbers from 0.1 to 10")
        }
        if grayscale && profile == .keep {
            return FieldProblem("grayscale", "does not go with profile keep: gray images have no profile of the source")
        }
        if linear && profile == .keep {
            return FieldProblem("linear", "does not go with profile keep: images are scaled in linear light for sRGB")
        }
        if let trim, !Self.tolerances.contains(trim) {
            return FieldProblem("trim", "is \(trim); allowed are true and whole numbers from 0 to 255")
        }
        if let watermark, let problem = watermark.problem { return problem.at("watermark") }
        return paddingProblem
    }

    private var paddingProblem: FieldProblem? {
        guard let padding else { return nil }
        let range = 0...Self.maximumSide
        if let side = [padding.top, padding.right, padding.bottom, padding.left].first(where: { !range.contains($0) }) {
            return FieldProblem("padding", "is \(side); allowed are 0 to \(Self.maximumSide) pixels")
        }
        let sides = [(padding.left + padding.right, width, "width"), (padding.top + padding.bottom, height, "height")]
        for (added, side, name) in sides where added + (side ?? 1) > Self.maximumSide {
            return FieldProblem(
                "padding",
                "of \(added) pixels would make the \(name) larger than \(Self.maximumSide) pixels"
            )
        }
        return nil
    }
}
