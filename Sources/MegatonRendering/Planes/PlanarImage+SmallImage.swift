extension SmallImage {
    /// Samples decoded planes, and turns the result upright.
    init(_ image: PlanarImage, _ orientation: EXIFOrientation) {
        let whole = PixelSize(width: max(1, Int(image.width.rounded())), height: max(1, Int(image.height.rounded())))
        let size = Self.size(of: whole)
        let planes = image.planes.enumerated().map { index, plane in
            let horizontal = index == 0 ? 1 : image.sampling.horizontal
            let vertical = index == 0 ? 1 : image.sampling.vertical
            // Decoded blocks have samples beyond the edge of the image.
            let width = min(plane.width, max(1, Int((image.width / Double(horizontal)).rounded())))
            let height = min(plane.height, max(1, Int((image.height / Double(vertical)).rounded())))
            // Two samples of color are enough.
            let taps = index == 0 ? Self.taps : Self.taps / 2
            return Self.average(
                plane.bytes,
                rowBytes: plane.stride,
                width: width,
                bands: 1,
                Taps(from: width, to: size.width, atMost: taps),
                Taps(from: height, to: size.height, atMost: taps)
            )
        }
        let stored = SmallImage(size, Self.converted(planes))
        self = orientation == EXIFOrientation(1) ? stored : stored.turned(orientation)
    }
}
