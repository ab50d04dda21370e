internal import Foundation

// The steps of a render that has one rendition, each with its pixels in memory before the next one begins.
extension VipsEngine {
    /// What the first pass of a plan reads: at a fraction of its size where the codec can.
    func load(
        _ plan: RenderPlan,
        _ data: Data,
        deadline: RenderDeadline
    ) throws(ImagePipeline.Error) -> VipsImage {
        let stop = VipsImage.Stop(deadline)
        let source = DamagedSource(data: data, type: plan.probe.type)
        return try source.decoding(plan.passes[0].failOn, until: deadline) { source throws(VipsError) in
            let image = try source.open(Self.loadOptions(plan, plan.passes[0]))
            return try withExtendedLifetime(stop) { () throws(VipsError) in try image.inMemory(stop: stop) }
        }.value
    }

    /// What was loaded, upright, in sRGB and of the size of the plan's first pass.
    func scale(
        _ image: VipsImage,
        _ plan: RenderPlan,
        deadline: RenderDeadline
    ) throws(ImagePipeline.Error) -> PlatformImage {
        let stop = VipsImage.Stop(deadline)
        do throws(VipsError) {
            return try VipsMessages.collecting { () throws(VipsError) in
                PlatformImage(inMemory: try image.thumbnail(plan.passes[0].base).eightBit().inMemory(stop: stop))
            }
        } catch {
            throw deadline.error ?? ImagePipeline.Error(.renderFailed, "the picture cannot be scaled: \(error.text).")
        }
    }
}
