internal import CVips
internal import Foundation

extension VipsEngine {
    /// A picture of what has come of a JPEG: what is missing is grey.
    ///
    /// - Parameter orientation: in the place of its own.
    func partial(
        _ data: Data,
        _ limits: RenderLimits,
        as thumbnail: ImageRequest.ThumbnailOptions?,
        orientation: Int? = nil,
        deadline: RenderDeadline
    ) throws(ImagePipeline.Error) -> PlatformImage {
        var probe = try probe(data, type: .jpeg, isWhole: false)
        try limits.check(probe)
        if let orientation { probe.orientation = orientation }
        let plan = RenderPlan(decoding: probe, as: thumbnail)
        return try picture(plan, data, isWhole: false, orientation: orientation, deadline: deadline)
    }

    /// The small JPEG within a JPEG's EXIF, and how the large one is to be turned; nil while it has not come.
    func embeddedThumbnail(_ data: Data) -> (data: Data, orientation: Int)? {
        data.withUnsafeBytes { bytes in
            guard let image = try? VipsImage.open(bytes, isWhole: false), let small = image.embeddedThumbnail else {
                return nil
            }
            return (small, image.orientation)
        }
    }
}
