internal import Foundation

// The steps of a render that has one rendition.
extension PlanesEngine {
    /// What the first pass of a plan reads: at a fraction of its size. Nil as `render` has it.
    func load(_ plan: RenderPlan, _ data: Data) -> PlanarPicture? {
        codecs.withCodec { codec in
            data.withUnsafeBytes { codec.decode($0, plan.probe, shrink: plan.shrink(plan.passes[0])) }
        }
    }

    /// What was loaded, upright and of the size of the plan's first step.
    func scale(_ picture: PlanarPicture, _ plan: RenderPlan) -> PlanarPicture? {
        var ladder = PlaneLadder(picture, plan.passes[0], EXIFOrientation(plan.probe.orientation))
        return ladder.make(plan.steps[0], graphs)
    }

    func encode(_ picture: PlanarPicture, _ options: EncodingOptions, _ deadline: RenderDeadline) -> Data? {
        codecs.withCodec { encode(picture, options, $0, deadline) }
    }
}
