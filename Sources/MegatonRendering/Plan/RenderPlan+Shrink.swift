extension RenderPlan {
    /// Source pixels for each pixel of the base, along the side that shrinks less.
    package func scale(_ pass: Pass) -> Double {
        let source = probe.uprightSize
        return min(
            Double(source.width) / Double(pass.base.width),
            Double(source.height) / Double(pass.base.height)
        )
    }

    /// The factor (1, 2, 4 or 8) by which a JPEG is shrunk while it is decoded. A smaller inverse transform skips most
    /// of the decoding work.
    func shrink(_ pass: Pass) -> Int {
        guard let margin = pass.qualityProfile.margin else { return 1 }
        let scale = scale(pass)
        return [8, 4, 2].first { scale >= Double($0) * margin } ?? 1
    }
}
