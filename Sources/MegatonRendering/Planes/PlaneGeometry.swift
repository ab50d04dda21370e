/// The region of a source plane that becomes a plane of the result. Geometry only, no samples.
///
/// Chroma samples are centered on the luma samples that they cover (JFIF 1.02), in sources and in results. A result
/// with an odd side has half a chroma sample beyond its edge: planes are made for the next even side, and decoders cut
/// off the excess. If the image is mirrored afterwards, the excess is at the opposite edge.
struct PlaneGeometry: Hashable {
    /// A region of the source plane, in samples; may extend beyond the plane.
    struct Part: Hashable {
        var left: Double
        var top: Double
        var width: Double
        var height: Double
    }

    /// Samples of the source plane that belong to the image. JPEG blocks have eight samples, so more are decoded if the
    /// side is not a multiple of eight; the encoder may have put anything there.
    let source: PixelSize
    let part: Part
    /// Samples of the result plane, as stored: before it is turned upright.
    let size: PixelSize

    /// - Parameters:
    ///   - index: 0 is luma.
    ///   - step: If it crops, the crop must have a fixed place.
    ///   - image: The whole source, as stored.
    ///   - sampling: Sampling of the result.
    init(
        plane index: Int,
        of step: RenderPlan.Step,
        from image: PlanarImage,
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
        let isChroma = index > 0
        let across = Axis(
            source: image.width,
            sourceFactor: isChroma ? image.sampling.horizontal : 1,
            scaled: scaled.width,
            start: left,
            length: cut.width,
            isMirrored: orientation.mirrorsColumns,
            padding: padding.across,
            factor: isChroma ? padding.across : 1
        )
        let down = Axis(
            source: image.height,
            sourceFactor: isChroma ? image.sampling.vertical : 1,
            scaled: scaled.height,
            start: top,
            length: cut.height,
            isMirrored: orientation.mirrorsRows,
            padding: padding.down,
            factor: isChroma ? padding.down : 1
        )
        source = PixelSize(width: across.source, height: down.source)
        part = Part(left: across.start, top: down.start, width: across.length, height: down.length)
        size = PixelSize(width: across.count, height: down.count)
    }

    /// Scales a whole plane of an upright image.
    ///
    /// - Parameters:
    ///   - source: Samples of the plane.
    ///   - covered: Samples that the image covers: half a sample less than the plane has, if a chroma plane of half
    ///     width belongs to an image of odd width.
    init(_ source: PixelSize, covered: (width: Double, height: Double), to size: PixelSize) {
        self.source = source
        self.size = size
        part = Part(left: 0, top: 0, width: covered.width, height: covered.height)
    }

    /// One of the two directions, as stored.
    private struct Axis {
        /// Samples of the source plane.
        let source: Int
        let start: Double
        let length: Double
        /// Samples of the result plane.
        let count: Int

        /// - Parameters:
        ///   - source: Luma samples of the source.
        ///   - sourceFactor: Luma samples for each sample of the source plane.
        ///   - scaled: Pixels of the whole source after scaling.
        ///   - start: Start of the crop within those pixels, upright.
        ///   - padding: The result's luma is padded to a multiple of it.
        ///   - factor: Pixels of the result for each sample of its plane.
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
