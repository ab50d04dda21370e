/// The sizes of one source that are there so far: what was decoded, and in memory what was made of it. Each next one is
/// made of the smallest that leaves a factor of two to the resampling.
struct VipsLadder {
    private struct Rung {
        let image: VipsImage
        let size: PixelSize

        var area: Double { Double(size.width) * Double(size.height) }
    }

    private let pass: RenderPlan.Pass
    private var rungs: [Rung]

    /// - Parameter base: of the size of the pass' base; in memory where the pass has several steps.
    init(_ base: VipsImage, _ pass: RenderPlan.Pass) {
        self.pass = pass
        rungs = [Rung(image: base, size: pass.base)]
    }

    /// The whole source at a step's size. The large steps come first.
    mutating func make(_ size: PixelSize, _ stop: VipsImage.Stop) throws(VipsError) -> VipsImage {
        if let same = rungs.first(where: { $0.size == size }) { return same.image }
        var made = try source(size).thumbnail(size, keepsProfile: pass.keepsProfile)
        let rung = Rung(image: made, size: size)
        if pass.isRung(rung.area, below: rungs[rungs.count - 1].area) {
            made = try made.inMemory(stop: stop)
            rungs.append(Rung(image: made, size: size))
        }
        return made
    }

    private func source(_ size: PixelSize) -> VipsImage {
        guard let margin = pass.ladderMargin else { return rungs[0].image }
        let large = rungs.dropFirst().filter {
            Double($0.size.width) >= margin * Double(size.width)
                && Double($0.size.height) >= margin * Double(size.height)
        }
        return (large.min { $0.area < $1.area } ?? rungs[0]).image
    }
}
