internal import Foundation

/// Makes thumbnails of JPEGs without converting them to pixels: planes are decoded at a fraction of their size, scaled
/// separately, and encoded directly. This avoids color conversion, and processes a quarter to a half of the samples.
///
/// libvips handles the rest: other formats and color spaces, crops by content (attention, entropy), canvases and
/// metadata. It also reports the details of damage.
final class PlanarJPEGEngine: Sendable {
    let codecs = TurboJPEGCodecs()
    let graphs = ZimgGraphs()

    /// - Parameters:
    ///   - pass: A pass that uses planes.
    ///   - isWhole: Whether damaged data is refused; otherwise missing parts are gray.
    /// - Returns: nil if the image is damaged or does not match its header, or if there is no memory.
    /// - Throws: `.renderTimedOut`, `.cancelled`.
    func render(
        _ pass: RenderPlan.Pass,
        of plan: RenderPlan,
        from data: Data,
        isWhole: Bool = true,
        deadline: RenderDeadline
    ) throws(ImageError) -> [EncodedImage]? {
        try codecs.withCodec { codec throws(ImageError) in
            if deadline.isExpired, let error = deadline.error { throw error }
            let decoded = data.withUnsafeBytes {
                codec.decode($0, plan.probe, shrink: plan.shrink(pass), isWhole: isWhole)
            }
            guard let decoded else { return nil }
            var pyramid = PlanePyramid(decoded, pass, EXIFOrientation(plan.probe.orientation))
            var images: [Int: EncodedImage] = [:]
            for index in plan.fromLargeToSmall(pass) {
                let step = plan.steps[index]
                if deadline.isExpired, let error = deadline.error { throw error }
                guard let image = pyramid.make(step, graphs) else { return nil }
                guard let bytes = encode(image, step.rendition, codec, deadline) else {
                    if let error = deadline.error { throw error }
                    return nil
                }
                images[index] = EncodedImage(
                    data: bytes,
                    size: image.size,
                    maker: .planes,
                    notes: plan.probe.notes
                )
            }
            return pass.steps.compactMap { images[$0] }
        }
    }

    /// Encodes the planes of an upright image.
    func encode(
        _ image: PlanarImage,
        _ rendition: Rendition,
        _ codec: TurboJPEGCodec,
        _ deadline: RenderDeadline
    ) -> Data? {
        rendition.format == .webp
            ? WebPPlanes.encode(image, rendition, deadline) : codec.encode(image, rendition)
    }
}
