/// The image pyramid of one pass: the decoded image, and the renditions kept in memory as sources for smaller ones.
/// Each rendition is made from the smallest level that leaves a scaling factor of at least two.
struct VipsPyramid {
    private struct Level {
        let image: VipsImage
        let size: PixelSize

        var area: Double { Double(size.width) * Double(size.height) }
    }

    private let pass: RenderPlan.Pass
    private var levels: [Level]

    /// - Parameter base: The image at the size of the pass's base; in memory if the pass has several steps.
    init(_ base: VipsImage, _ pass: RenderPlan.Pass) {
        self.pass = pass
        levels = [Level(image: base, size: pass.base)]
    }

    /// The whole source at a step's size. Call it for large steps first.
    mutating func make(_ size: PixelSize, _ stop: VipsImage.Stop) throws(VipsError) -> VipsImage {
        if let same = levels.first(where: { $0.size == size }) { return same.image }
        var made = try source(size).thumbnail(size, in: pass, stop)
        let level = Level(image: made, size: size)
        if pass.isLevel(level.area, below: levels[levels.count - 1].area) {
            made = try made.inMemory(stop: stop)
            levels.append(Level(image: made, size: size))
        }
        return made
    }

    private func source(_ size: PixelSize) -> VipsImage {
        guard let margin = pass.pyramidMargin else { return levels[0].image }
        let large = levels.dropFirst().filter {
            Double($0.size.width) >= margin * Double(size.width)
                && Double($0.size.height) >= margin * Double(size.height)
        }
        return (large.min { $0.area < $1.area } ?? levels[0]).image
    }
}
