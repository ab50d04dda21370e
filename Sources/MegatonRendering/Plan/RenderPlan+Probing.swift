package import Foundation

extension RenderPlan {
    /// Reads the header, and plans renditions that are within the limits.
    package init(
        probing data: Data,
        _ type: AssetType,
        _ renditions: [Rendition],
        _ engine: any RenderEngine,
        _ limits: RenderLimits
    ) throws(ImageError) {
        let probe = try limits.probe(data, type, engine)
        self.init(probe, renditions, limits: limits)
        for pass in passes { try limits.check(probe, frames: pass.frames) }
        try limits.check(self)
    }
}
