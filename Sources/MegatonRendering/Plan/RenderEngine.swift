package import Foundation

/// Turns encoded bytes into renditions or an image in memory, in two steps with a plan between them. All methods block;
/// call them on render threads.
package protocol RenderEngine: Sendable {
    /// Whether the probes of usual JPEGs say which planes they have.
    var usesPlanes: Bool { get }

    /// Reads the header.
    func probe(_ data: Data, type: AssetType) throws(ImageError) -> ImageProbe

    /// Decodes once and makes every step of a pass, in its order.
    ///
    /// - Parameters:
    ///   - plan: The plan that contains the pass.
    ///   - deadline: Polled to find out whether to stop.
    func render(
        _ pass: RenderPlan.Pass,
        of plan: RenderPlan,
        from data: Data,
        deadline: RenderDeadline
    ) throws(ImageError) -> [EncodedImage]

    /// Decodes an image in memory, for a plan without steps.
    func image(
        _ plan: RenderPlan,
        _ data: Data,
        deadline: RenderDeadline
    ) throws(ImageError) -> PlatformImage
}

extension RenderEngine {
    package var usesPlanes: Bool { false }

    /// Renders every step of the plan, in order, and adds the facts about the source.
    package func execute(
        _ plan: RenderPlan,
        _ data: Data,
        deadline: RenderDeadline
    ) throws(ImageError) -> [EncodedImage] {
        var encoded = [EncodedImage?](repeating: nil, count: plan.steps.count)
        for pass in plan.passes {
            let images = try render(pass, of: plan, from: data, deadline: deadline)
            for (index, image) in zip(pass.steps, images) { encoded[index] = image }
        }
        let images = encoded.compactMap { $0 }
        let facts = SourceFacts(plan.probe, data, images.lazy.compactMap(\.pixels).first)
        return images.map { image in
            var image = image
            image.facts = facts
            return image
        }
    }
}

/// The engine that makes renditions.
public enum RenderEngineChoice: String, Sendable, CaseIterable {
    /// The planes engine if it can make the rendition, otherwise libvips.
    case auto
    /// libvips for everything.
    case vips
    /// The planes engine alone: it works on a JPEG's planes without converting them to pixels (TurboJPEG, libjpeg,
    /// libwebp), and refuses everything else. For comparisons.
    case planes
}
