/// Which part of a plane becomes which plane of a result. Sizes and places only, no samples.
///
/// Samples of colour lie in the middle of those of luma that they stand for (JFIF 1.02), in what is read and in what is
/// written. A result whose side is odd has half a sample of colour beyond its edge: planes are made for the next even
/// side, and what lies beyond the edge is cut off by who shows it. Where the picture is mirrored afterwards, that edge is
/// the other one.
struct PlaneGeometry: Hashable {
    /// Of the source's plane, in its samples; may reach beyond it.
    struct Part: Hashable {
        var left: Double
        var top: Double
        var width: Double
        var height: Double
    }

    /// Samples of the source's plane that show the picture. A block of a JPEG has eight, so that more are decoded where the side is none of
    /// their multiples; those are whatever the encoder has put there.
    let source: PixelSize
    let part: Part
    /// Samples of the result's plane, as stored: before it is turned upright.
    let size: PixelSize

    /// - Parameters:
    ///   - index: 0 is luma.
    ///   - step: with a place for what it cuts out, if it does.
    ///   - picture: the whole source, as stored.
    ///   - sampling: of the result.
    init(
        plane index: Int,
        of step: RenderPlan.Step,
        from picture: PlanarPicture,
        _ orientation: EXIFOrientation,
        to sampling: ChromaSampling
    ) {
        let scaled = orientation.turned(step.scaled)
        let cut = orientation.turned(step.crop?.size ?? step.scaled)
        var (left, top) = (0, 0)
        if case .at(let x, let y) = step.crop?.place { (left, top) = (x, y) }
        if orientation.swapsAxes { (left, top) = (top, left) }
        var padding = (across: sampling.horizontal, down: sampling.vertical)
        if orientation.swapsAxes { padding = (padding.down, padding.across) }
        let isColour = index > 0
        let across = Axis(
            source: picture.width,
            sourceFactor: isColour ? picture.sampling.horizontal : 1,
            scaled: scaled.width,
            start: left,
            length: cut.width,
            isMirrored: orientation.mirrorsColumns,
            padding: padding.across,
            factor: isColour ? padding.across : 1
        )
        let down = Axis(
            source: picture.height,
            sourceFactor: isColour ? picture.sampling.vertical : 1,
            scaled: scaled.height,
            start: top,
            length: cut.height,
            isMirrored: orientation.mirrorsRows,
            padding: padding.down,
            factor: isColour ? padding.down : 1
        )
        source = PixelSize(width: across.source, height: down.source)
        part = Part(left: across.start, top: down.start, width: across.length, height: down.length)
        size = PixelSize(width: across.count, height: down.count)
    }

    /// One of the two directions, as stored.
    private struct Axis {
        /// Samples of the source's plane.
        let source: Int
        let start: Double
        let length: Double
        /// Samples of the result's plane.
        let count: Int

        /// - Parameters:
        ///   - source: samples of luma.
        ///   - sourceFactor: samples of luma for each of the source's plane.
        ///   - scaled: pixels that the source becomes.
        ///   - start: of what is cut out of those, upright.
        ///   - padding: the result's luma is filled up to a multiple of it.
        ///   - factor: pixels of the result for each sample of its plane.
        init(
            source: Double,
            sourceFactor: Int,
            scaled: Int,
            start: Int,
            length: Int,
            isMirrored: Bool,
            padding: Int,
            factor: Int
        ) {
            let padded = (length + padding - 1) / padding * padding
            let first = isMirrored ? scaled - start - padded : start
            let ratio = source / Double(scaled) / Double(sourceFactor)
            self.source = max(1, Int((source / Double(sourceFactor)).rounded()))
            self.start = Double(first) * ratio
            self.length = Double(padded) * ratio
            count = padded / factor
        }
    }
}
