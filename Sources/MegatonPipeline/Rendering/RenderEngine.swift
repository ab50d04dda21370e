internal import Foundation

/// Turns encoded bytes into renditions or a picture, in two steps with a plan between them. All block and belong on
/// render threads.
protocol RenderEngine: Sendable {
    /// Reads the header.
    func probe(_ data: Data, type: AssetType) throws(ImagePipeline.Error) -> ImageProbe

    /// Decodes once and makes every step of the plan, in order.
    ///
    /// - Parameter deadline: asked again and again whether the work is to end.
    func execute(
        _ plan: RenderPlan,
        _ data: Data,
        deadline: RenderDeadline
    ) throws(ImagePipeline.Error) -> [EncodedImage]

    /// Decodes what a plan without steps says.
    func picture(
        _ plan: RenderPlan,
        _ data: Data,
        deadline: RenderDeadline
    ) throws(ImagePipeline.Error) -> PlatformImage
}

/// A finished rendition.
struct EncodedImage: Sendable {
    let data: Data
    let size: PixelSize
}
