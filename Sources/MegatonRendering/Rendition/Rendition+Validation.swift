extension Rendition {
    /// Describes the first invalid value in a sentence; nil if all are valid.
    public var validationError: String? { problem?.description }

    /// The first invalid field, or nil.
    package var problem: FieldProblem? { nameProblem ?? sizeProblem ?? cutProblem ?? effectProblem ?? encodingProblem }

    /// Like `validationError`, but without the checks of the name and the maximum side, for which a pipeline has limits
    /// of its own.
    var renderValidationError: String? {
        let side = sides.first { $0.pixels < 1 }.map {
            FieldProblem($0.field, "is \($0.pixels); allowed is 1 pixel or more")
        }
        return (side ?? fitProblem ?? cutProblem ?? effectProblem ?? encodingProblem)?.description
    }

    static let allowedNames = "are 1 to 64 letters, digits, '.', '_' and '-', the first is not '.'"

    private var nameProblem: FieldProblem? {
        let isPlain = name.utf8.allSatisfy { byte in
            (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                || [45, 46, 95].contains(byte)
        }
        if name.isEmpty || name.utf8.count > 64 || !isPlain || name.hasPrefix(".") {
            return FieldProblem("name", "is \(FieldProblem.quoted(name)); allowed \(Self.allowedNames)")
        }
        return nil
    }

    private var sides: [(field: String, pixels: Int)] {
        [("width", width), ("height", height)].compactMap { field, side in side.map { (field, $0) } }
    }

    private var sizeProblem: FieldProblem? {
        if let side = sides.first(where: { !(1...Self.maximumSide).contains($0.pixels) }) {
            return FieldProblem(side.field, "is \(side.pixels); allowed are 1 to \(Self.maximumSide) pixels")
        }
        return fitProblem
    }

    private var fitProblem: FieldProblem? {
        if width == nil && height == nil { return FieldProblem("", "needs a width, a height or both") }
        if fit != .inside && fit != .outside && (width == nil || height == nil) {
            return FieldProblem("fit", "is \(fit.rawValue), which needs both width and height")
        }
        if !(1...4).contains(dpr) { return FieldProblem("dpr", "is \(dpr); allowed are 1 to 4") }
        return nil
    }

    private var cutProblem: FieldProblem? {
        let mayCut = fit == .cover || fit == .auto
        if gravity != .center && !mayCut {
            return FieldProblem("gravity", "is \(gravity.rawValue), which is for fit cover, not \(fit.rawValue)")
        }
        guard let focus else { return nil }
        if !mayCut { return FieldProblem("focus", "is for fit cover, not \(fit.rawValue)") }
        if gravity != .center { return FieldProblem("focus", "and gravity exclude each other") }
        for (field, part) in [("x", focus.x), ("y", focus.y)] where !(0...1).contains(part) {
            return FieldProblem("focus.\(field)", "is \(part); allowed are numbers from 0 to 1")
        }
        return nil
    }

    /// The first option of the encoder with an invalid value, or nil. An option that the format does not have is
    /// invalid, because it would silently have no effect.
    package var encodingProblem: FieldProblem? {
        for option in RenditionOption.encoding {
            if let problem = option.encoding?.problem(self) { return FieldProblem(option.name, problem) }
        }
        return nil
    }
}
