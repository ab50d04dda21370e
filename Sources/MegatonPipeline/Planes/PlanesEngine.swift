internal import Foundation

/// Makes thumbnails of JPEGs without making pixels of them: their planes are decoded at a fraction of their size, scaled
/// each for itself, and encoded as they are. There is no conversion of colours, and a quarter to a half of the samples.
///
/// What it does not do is libvips' part: other formats and colours, what reads pixels (attention, entropy), canvases,
/// metadata; and damage, of which libvips says what it is.
final class PlanesEngine: Sendable {
    let codecs = PlaneCodecs()
    let graphs = ScalingGraphs()

    /// - Parameters:
    ///   - pass: one that uses planes.
    ///   - isWhole: damage is not decoded; else what is missing is grey.
    /// - Returns: nil where the picture is damaged, is not what its header said, or where there is no memory.
    /// - Throws: `.renderTimedOut`, `.cancelled`.
    func render(
        _ pass: RenderPlan.Pass,
        of plan: RenderPlan,
        from data: Data,
        isWhole: Bool = true,
        deadline: RenderDeadline
    ) throws(ImagePipeline.Error) -> [EncodedImage]? {
        try codecs.withCodec { codec throws(ImagePipeline.Error) in
            if deadline.mustEnd, let error = deadline.error { throw error }
            let decoded = data.withUnsafeBytes {
                codec.decode($0, plan.probe, shrink: plan.shrink(pass), isWhole: isWhole)
            }
            guard let decoded else { return nil }
            var ladder = PlaneLadder(decoded, pass, EXIFOrientation(plan.probe.orientation))
            var images: [Int: EncodedImage] = [:]
            for index in plan.fromLargeToSmall(pass) {
                let step = plan.steps[index]
                if deadline.mustEnd, let error = deadline.error { throw error }
                guard let picture = ladder.make(step, graphs) else { return nil }
                guard let bytes = encode(picture, step.rendition.encoding, codec, deadline) else {
                    if let error = deadline.error { throw error }
                    return nil
                }
                images[index] = EncodedImage(
                    data: bytes,
                    size: picture.size,
                    maker: .planes,
                    notes: plan.probe.notes
                )
            }
            return pass.steps.compactMap { images[$0] }
        }
    }

    /// - Parameter picture: upright.
    func encode(
        _ picture: PlanarPicture,
        _ options: EncodingOptions,
        _ codec: PlaneCodec,
        _ deadline: RenderDeadline
    ) -> Data? {
        options.format == .webp
            ? WebPPlanes.encode(picture, options, deadline) : codec.encode(picture, options)
    }
}
