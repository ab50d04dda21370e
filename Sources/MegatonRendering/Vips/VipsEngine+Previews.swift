internal import CVips
package import Foundation

extension VipsEngine {
    /// Plans the decoding of a partially downloaded JPEG from its header, within the limits.
    ///
    /// - Parameter orientation: Orientation to use instead of the image's own.
    package func planPartly(
        _ data: Data,
        _ limits: RenderLimits,
        as thumbnail: ThumbnailOptions?,
        orientation: Int? = nil
    ) throws(ImageError) -> RenderPlan {
        var probe = try probe(data, type: .jpeg)
        try limits.check(probe)
        if let orientation { probe.orientation = orientation }
        return RenderPlan(decoding: probe, as: thumbnail)
    }

    /// The thumbnail JPEG in a JPEG's EXIF, and the orientation of the main image; nil until the thumbnail has arrived.
    package func embeddedThumbnail(_ data: Data) -> (data: Data, orientation: Int)? {
        do { try HeaderBounds.check(data, .jpeg) } catch { return nil }  // The final decode reports the reason.
        return data.withUnsafeBytes { bytes in
            // Data that cannot be opened has no preview; the final decode reports the reason.
            guard let image = try? VipsImage.open(bytes, failOn: .nothing), let small = image.embeddedThumbnail else {
                return nil
            }
            return (small, image.orientation)
        }
    }
}
