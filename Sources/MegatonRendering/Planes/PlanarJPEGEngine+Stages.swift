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
    func scale(_ picture: PlanarImage, _ plan: RenderPlan) -> PlanarImage? {
        var ladder = PlanePyramid(picture, plan.passes[0], EXIFOrientation(plan.probe.orientation))
        return ladder.make(plan.steps[0], graphs)
    }

    func encode(_ picture: PlanarImage, _ rendition: Rendition, _ deadline: RenderDeadline) -> Data? {
        codecs.withCodec { encode(picture, rendition, $0, deadline) }
    }
}
