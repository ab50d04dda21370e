internal import Foundation

// The stages of a render with one rendition.
extension PlanarJPEGEngine {
    /// Decodes the source of a plan's first pass, shrunk by a fraction; nil as in `render`.
    func load(_ plan: RenderPlan, _ data: Data) -> PlanarImage? {
        codecs.withCodec { codec in
            data.withUnsafeBytes { codec.decode($0, plan.probe, shrink: plan.shrink(plan.passes[0])) }
        }
    }

    /// Turns the decoded planes upright and scales them to the size of the plan's first step.
    func scale(_ image: PlanarImage, _ plan: RenderPlan) -> PlanarImage? {
        var pyramid = PlanePyramid(image, plan.passes[0], EXIFOrientation(plan.probe.orientation))
        return pyramid.make(plan.steps[0], graphs)
    }

    func encode(_ image: PlanarImage, _ rendition: Rendition, _ deadline: RenderDeadline) -> Data? {
        codecs.withCodec { encode(image, rendition, $0, deadline) }
    }
}
