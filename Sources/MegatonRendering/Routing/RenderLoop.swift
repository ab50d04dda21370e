package import Foundation

/// The bare rendering of a job: source bytes in, a rendition's bytes out, on the calling thread. Benchmarks use it to
/// measure the overhead of the rest of the pipeline.
package struct RenderLoop: Sendable {
    private let engine: any RenderEngine
    private let rendition: Rendition
    private let limits = RenderLimits()

    /// - Throws: The errors of a pipeline for a rendition that it cannot make.
    package init(_ rendition: Rendition, engine: RenderEngineChoice = .auto) throws(ImageError) {
        try limits.check(rendition)
        self.rendition = rendition
        self.engine = engine.engine
    }

    /// Runs sniff, probe, limits, plan, and one decode for the rendition.
    ///
    /// - Throws: The errors of a pipeline for these bytes.
    package func render(_ data: Data) throws(ImageError) -> Data {
        let plan = try RenderPlan(probing: data, AssetType.supported.sniff(data), [rendition], engine, limits)
        let deadline = RenderDeadline(.now + limits.time)
        guard let image = try engine.execute(plan, data, deadline: deadline).first else {
            throw ImageError(.renderFailed, "the engine made nothing of the image.")
        }
        return image.data
    }
}
