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
