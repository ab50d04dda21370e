extension RenderPlan {
    /// How many pixels of the source, in a row or a column, become one of the base: the smaller number of both.
    func scale(_ pass: Pass) -> Double {
        let source = probe.uprightSize
        return min(
            Double(source.width) / Double(pass.base.width),
            Double(source.height) / Double(pass.base.height)
        )
    }

    /// By which of 1, 2, 4 and 8 a JPEG is shrunk while it is decoded: where the inverse transform is one of fewer
    /// coefficients, most of the work is never done.
    func shrink(_ pass: Pass) -> Int {
        guard let margin = pass.qualityProfile.margin else { return 1 }
        let scale = scale(pass)
        return [8, 4, 2].first { scale >= Double($0) * margin } ?? 1
    }
}
