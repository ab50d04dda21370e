package import Foundation

/// The engine that would make a rendition of a source, and why. Nothing is decoded.
package struct EngineForecast: Sendable, Codable, Equatable {
    /// `planes` or `libvips`; nil if that depends on the source, or if the engine would refuse the rendition.
    package let engine: String?
    /// A clause for people.
    package let reason: String

    private init(_ engine: String?, _ reason: String) { (self.engine, self.reason) = (engine, reason) }

    /// - Parameters:
    ///   - beginning: the first bytes of the source, with its header; nil if they are not known.
    ///   - choice: the engine that `--engine` of the workers names.
    package init(_ rendition: Rendition, of beginning: Data?, choice: RenderEngineChoice = .auto) {
        if choice == .vips {
            self.init("libvips", "the workers use it for everything (--engine vips)")
            return
        }
        // Without the source: that of a usual JPEG, so that only the rendition decides.
        let probe = beginning.flatMap(Self.probe) ?? Self.usual
        if let obstacle = RenderPlan(probe, [rendition]).steps.first?.reasonPlanesUnsupported(probe) {
            self = Self.withoutPlanes(obstacle, choice)
        } else if let beginning, let type = AssetType(beginning), type != .jpeg {
            if choice == .auto && (type == .png || type == .webp) {
                self.init(
                    nil,
                    "planes if the image is whole, still, larger than the result and of usual colors, and if all "
                        + "results of the job can be made from planes; else libvips"
                )
            } else {
                self = Self.withoutPlanes("the source is of type \(type), not JPEG", choice)
            }
        } else if beginning == nil {
            self.init(nil, "planes if the source is a JPEG of usual sampling in sRGB or gray, else libvips")
        } else if probe.planes == nil || beginning.flatMap(Self.probe) == nil {
            self = Self.withoutPlanes("the source is no JPEG of usual sampling in sRGB or gray", choice)
        } else {
            self.init("planes", "the source is a JPEG whose planes can be scaled; libvips renders it if it is damaged")
        }
    }

    private static func probe(_ beginning: Data) -> ImageProbe? {
        AssetType(beginning) == .jpeg ? JPEGHeader(beginning)?.probe : nil
    }

    private static let usual = ImageProbe(
        type: .jpeg,
        width: 4000,
        height: 3000,
        bands: 3,
        frames: 1,
        orientation: 1,
        isProgressive: false,
        planes: .s420
    )

    private static func withoutPlanes(_ obstacle: String, _ choice: RenderEngineChoice) -> EngineForecast {
        if choice == .planes { return EngineForecast(nil, "the planes engine alone refuses it: \(obstacle)") }
        return EngineForecast("libvips", obstacle)
    }
}
