import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The samples of PNGs as they are decoded to planes, for all filters of rows that follow each other.
@Suite struct PNGRowTests {
    /// Color types with one to four channels.
    private static let colorTypes: [UInt8] = [0, 4, 2, 6]

    private func decoded(_ data: Data) throws -> PlanarImage? {
        let engine = RenderEngineChoice.auto.engine
        let plan = try RenderPlan(probing: data, .png, [Rendition(width: 1, height: 1)], engine, RenderLimits())
        let pixels = PlanarPixels(codecs: TurboJPEGCodecs(), axes: PlaneAxes())
        return pixels.decode(plan.passes[0], of: plan, from: data)
    }

    /// Each filter in front of each, and the first rows of an image, above which all samples are 0.
    @Test(arguments: colorTypes, [2, 3, 5, 17, 64])
    func eachFilterIsUndoneBehindEachOther(_ colorType: UInt8, _ width: Int) throws {
        var random = SeededGenerator(seed: UInt64(colorType) << 8 | UInt64(width))
        var filters = (0..<5).flatMap { first in (0..<5).flatMap { [UInt8(first), UInt8($0)] } }
        for round in 0..<8 {
            if round > 0 { filters.shuffle(using: &random) }
            let height = round < 2 ? filters.count : 2 + round
            var png = TestPNG(colorType, width: width, height: height)
            png.filters = filters
            let channels = [0: 1, 4: 2, 2: 3, 6: 4][colorType, default: 1]
            // Differences of all sizes, small ones too.
            let samples = (0..<height * width * channels).map { index in
                round % 2 == 0
                    ? Int.random(in: 0...255, using: &random)
                    : (index / channels + Int.random(in: 0...3, using: &random)) % 256
            }
            func sample(_ x: Int, _ y: Int, _ channel: Int) -> Int { samples[(y * width + x) * channels + channel] }
            let image = try #require(
                try decoded(png.data { x, y in (0..<channels).map { sample(x, y, $0) } })
            )
            try #require(image.planes.count == channels)
            var wrong = 0
            for y in 0..<height {
                for x in 0..<width {
                    for channel in 0..<channels {
                        var expected = sample(x, y, channel)
                        if channels % 2 == 0, channel < channels - 1 {
                            expected = Int((Double(expected * sample(x, y, channels - 1)) / 255).rounded())
                        }
                        let plane = image.planes[channel]
                        if Int(plane.bytes[y * plane.stride + x]) != expected { wrong += 1 }
                    }
                }
            }
            #expect(wrong == 0, "round \(round): \(wrong) samples of \(samples.count)")
        }
    }

    @Test(arguments: colorTypes, [5, 255]) func anUnknownFilterIsLeftToLibvips(_ colorType: UInt8, _ filter: UInt8)
        throws
    {
        var png = TestPNG(colorType, width: 30, height: 20)
        png.filters = [4, 3, filter]
        let channels = [0: 1, 4: 2, 2: 3, 6: 4][colorType, default: 1]
        #expect(try decoded(png.data { x, y in (0..<channels).map { (x * y + $0) % 256 } }) == nil)
        png.filters = [4, 3, 1]
        #expect(try decoded(png.data { x, y in (0..<channels).map { (x * y + $0) % 256 } }) != nil)
    }
}
