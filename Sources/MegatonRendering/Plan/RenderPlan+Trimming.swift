/// A part of an image, in pixels.
package struct PixelBox: Sendable, Equatable {
    package var left: Int
    package var top: Int
    package var size: PixelSize

    package init(left: Int, top: Int, size: PixelSize) {
        self.left = left
        self.top = top
        self.size = size
    }
}

extension RenderPlan {
    /// The plan for the part of the upright source that remains of a pass after trimming, with its steps in the order
    /// of the pass, in one pass.
    ///
    /// - Throws: `.outputTooLarge` if a size that follows from the part is beyond the limits.
    func trimmed(_ pass: Pass, to box: PixelBox) throws(ImageError) -> RenderPlan {
        let source = probe.uprightSize
        var part = probe
        (part.width, part.height, part.orientation) = (box.size.width, box.size.height, 1)
        // Its pixels are decoded already.
        part.planes = nil
        let renditions = pass.steps.map { index in
            var rendition = steps[index].rendition
            rendition.trim = nil
            rendition.focus = rendition.focus?.moved(into: box, of: source)
            return rendition
        }
        let plan = RenderPlan(part, renditions, limits: limits)
        try limits.check(plan)
        return plan
    }
}

extension Rendition.FocalPoint {
    /// The point as fractions of a part, or the nearest point of the part.
    fileprivate func moved(into box: PixelBox, of source: PixelSize) -> Self {
        func fraction(_ value: Double, _ whole: Int, _ start: Int, _ length: Int) -> Double {
            min(max(0, (value * Double(whole) - Double(start)) / Double(length)), 1)
        }
        return Self(
            x: fraction(x, source.width, box.left, box.size.width),
            y: fraction(y, source.height, box.top, box.size.height)
        )
    }
}
