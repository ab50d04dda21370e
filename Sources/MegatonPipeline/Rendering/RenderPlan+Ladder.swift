// Of several sizes of one decode the small ones are made of the larger ones.
extension RenderPlan {
    /// The steps of a pass, the widest first.
    func fromLargeToSmall(_ pass: Pass) -> [Int] {
        pass.steps.sorted { steps[$0].scaled.width > steps[$1].scaled.width }
    }
}

extension RenderPlan.Pass {
    /// How much larger than a result what it is made of has to be; nil where that is always what was decoded.
    ///
    /// Without a margin for the decoder there is one for each step all the same: what they lose adds up.
    var ladderMargin: Double? { steps.count > 1 ? qualityProfile.margin.map { max(2, $0) } : nil }

    /// Whether a picture is kept so that others are made of it: each is at most half of the last one, so that all together
    /// are no more than what was decoded, however many sizes are asked for.
    ///
    /// - Parameters: areas in pixels.
    func isRung(_ area: Double, below last: Double) -> Bool { ladderMargin != nil && area * 2 <= last }
}
