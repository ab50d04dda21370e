internal import Foundation

// The stages of a render with one rendition; each stage computes its pixels before the next one starts.
extension VipsEngine {
    /// Decodes the source of a plan's first pass, at a fraction of its size if the codec supports that.
    func load(
        _ plan: RenderPlan,
        _ data: Data,
        deadline: RenderDeadline
    ) throws(ImageError) -> VipsImage {
        let stop = VipsImage.Stop(deadline)
        let source = DamagedSource(data: data, type: plan.probe.type)
        return try source.decoding(plan.passes[0].failOn, until: deadline) { source throws(VipsError) in
            let image = try source.open(Self.loadOptions(plan, plan.passes[0]))
            return try withExtendedLifetime(stop) { () throws(VipsError) in try image.inMemory(stop: stop) }
        }.value
    }

    /// Turns the decoded image upright, converts it to sRGB and scales it to the base of the plan's first pass.
    func scale(
        _ image: VipsImage,
        _ plan: RenderPlan,
        deadline: RenderDeadline
    ) throws(ImageError) -> PlatformImage {
        let stop = VipsImage.Stop(deadline)
        do throws(VipsError) {
            return try VipsMessages.collecting { () throws(VipsError) in
                let pass = plan.passes[0]
                return PlatformImage(
                    inMemory: try image.thumbnail(pass.base, in: pass, stop).eightBit().inMemory(stop: stop)
                )
            }
        } catch {
            throw deadline.error ?? ImageError(.renderFailed, "the image cannot be scaled: \(error.text).")
        }
    }
}
