/// A luma plane with two chroma planes, or a luma plane alone.
package struct PlanarImage {
    /// Luma samples that belong to the image, in a row. A fraction if a decoder has shrunk the image; the plane may
    /// have more samples.
    let width: Double
    /// Luma samples that belong to the image, in a column.
    let height: Double
    let sampling: ChromaSampling
    let planes: [Plane]

    /// Size in pixels. Exact for scaled images, which have no fractions.
    var size: PixelSize { PixelSize(width: Int(width), height: Int(height)) }
}
