internal import CVips
internal import Foundation

extension VipsEngine {
    /// What is to be decoded of a JPEG that has not come as a whole, from its header, within the limits.
    ///
    /// - Parameter orientation: in the place of its own.
    func planPartly(
        _ data: Data,
        _ limits: RenderLimits,
        as thumbnail: ImageRequest.ThumbnailOptions?,
        orientation: Int? = nil
    ) throws(ImagePipeline.Error) -> RenderPlan {
        var probe = try probe(data, type: .jpeg)
        try limits.check(probe)
        if let orientation { probe.orientation = orientation }
        return RenderPlan(decoding: probe, as: thumbnail)
    }

    /// The small JPEG within a JPEG's EXIF, and how the large one is to be turned; nil while it has not come.
    func embeddedThumbnail(_ data: Data) -> (data: Data, orientation: Int)? {
        do { try HeaderBounds.check(data, .jpeg) } catch { return nil }  // The picture's own decoder says why.
        return data.withUnsafeBytes { bytes in
            // What cannot be opened yet, or never will, has no preview; the whole picture's decoder says why.
            guard let image = try? VipsImage.open(bytes, failOn: .nothing), let small = image.embeddedThumbnail else {
                return nil
            }
            return (small, image.orientation)
        }
    }
}
