import Foundation
import MegatonTestSupport

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Renders sources with options that change pixels.
enum EffectFixture {
    static func render(
        _ rendition: Rendition,
        _ data: Data,
        limits: RenderLimits = RenderLimits()
    ) throws -> EncodedImage {
        try render([rendition], data, limits: limits)[0]
    }

    static func render(
        _ renditions: [Rendition],
        _ data: Data,
        limits: RenderLimits = RenderLimits()
    ) throws -> [EncodedImage] {
        for rendition in renditions { try limits.check(rendition) }
        let engine = RenderEngineChoice.auto.engine
        let type = try AssetType.supported.sniff(data)
        let plan = try RenderPlan(probing: data, type, renditions, engine, limits)
        return try engine.execute(plan, data, deadline: RenderDeadline(.now + .seconds(60)))
    }

    /// A PNG of the given size with options.
    static func png(_ width: Int?, _ height: Int?, _ change: (inout Rendition) -> Void) -> Rendition {
        var rendition = Rendition(width: width, height: height, format: .png)
        change(&rendition)
        return rendition
    }

    /// The middles of the quarters of an image: top left, top right, bottom left, bottom right.
    static func quarters(_ image: EncodedImage) throws -> [Quarter?] {
        let reader = try PixelReader(image.data)
        let (x, y) = ((reader.width - 1) / 4, (reader.height - 1) / 4)
        let (right, bottom) = (reader.width - 1 - x, reader.height - 1 - y)
        return [(x, y), (right, y), (x, bottom), (right, bottom)].map { Quarter(reader.pixel($0.0, $0.1)) }
    }

    /// The colors of `TestImage.quarters`.
    enum Quarter {
        case red, green, blue, white

        /// Nil for any other color.
        init?(_ pixel: [UInt8]) {
            switch pixel.prefix(3).map({ $0 > 127 }) {
            case [true, false, false]: self = .red
            case [false, true, false]: self = .green
            case [false, false, true]: self = .blue
            case [true, true, true]: self = .white
            default: return nil
            }
        }
    }
}
