extension Rendition {
    /// Says what is wrong with the values, or nil.
    public var complaint: String? { nameComplaint ?? sizeComplaint ?? cutComplaint ?? encoding.complaint }

    /// The same without what concerns names of files, and without the largest side, which a pipeline has its own of.
    var renderComplaint: String? {
        for side in [width, height] {
            if let side, side < 1 { return "width and height are 1 pixel or more" }
        }
        return fitComplaint ?? cutComplaint ?? encoding.complaint
    }

    private var nameComplaint: String? {
        let isPlain = name.utf8.allSatisfy { byte in
            (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                || [45, 46, 95].contains(byte)
        }
        if name.isEmpty || name.utf8.count > 64 || !isPlain || name.hasPrefix(".") {
            return "a rendition's name is 1 to 64 letters, digits, '.', '_' or '-', and does not start with '.'"
        }
        return nil
    }

    private var sizeComplaint: String? {
        for side in [width, height] {
            if let side, !(1...Self.maximumSide).contains(side) {
                return "width and height are 1 to \(Self.maximumSide) pixels"
            }
        }
        return fitComplaint
    }

    private var fitComplaint: String? {
        if width == nil && height == nil { return "a rendition needs a width, a height or both" }
        if fit != .inside && fit != .outside && (width == nil || height == nil) {
            return "fit \(fit.rawValue) needs both width and height"
        }
        if !(1...4).contains(dpr) { return "dpr is 1 to 4" }
        return nil
    }

    private var cutComplaint: String? {
        if gravity != .centre && fit != .cover { return "gravity is for fit cover, which cuts" }
        guard let focus else { return nil }
        if fit != .cover { return "focus is for fit cover, which cuts" }
        if gravity != .centre { return "focus and gravity exclude each other" }
        if !(0...1).contains(focus.x) || !(0...1).contains(focus.y) { return "focus has an x and a y of 0 to 1" }
        return nil
    }
}
