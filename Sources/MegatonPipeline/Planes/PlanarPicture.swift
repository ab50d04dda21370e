/// Luma and the two of colour, or luma alone.
struct PlanarPicture {
    /// Samples of luma that show the picture, in a row: parts of them too, where a decoder has shrunk it. A plane may have more.
    let width: Double
    /// The same in a column.
    let height: Double
    let sampling: ChromaSampling
    let planes: [Plane]

    /// Pixels. What was scaled has no parts of samples.
    var size: PixelSize { PixelSize(width: Int(width), height: Int(height)) }
}
