import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Renditions without the borders of their source.
@Suite(.timeLimit(.minutes(2))) struct TrimTests {
    /// A red box from 10, 5 to 30, 20 on a border; inside of it a pixel of another color.
    private static func framed(_ border: (UInt8, UInt8, UInt8, UInt8)) -> Data {
        TestImage.png(width: 50, height: 40) { x, y in
            (10..<30).contains(x) && (5..<20).contains(y) ? (255, 0, 0, 255) : border
        }
    }

    private static func trimmed(_ width: Int?, _ height: Int?, _ tolerance: Int = 10) -> Rendition {
        EffectFixture.png(width, height) { $0.trim = tolerance }
    }

    @Test func bordersAreRemovedBeforeTheSizeIsApplied() throws {
        for border: (UInt8, UInt8, UInt8, UInt8) in [(255, 255, 255, 255), (0, 0, 0, 255), (9, 9, 9, 0)] {
            let image = try EffectFixture.render(Self.trimmed(10, nil), Self.framed(border))
            #expect(image.size == PixelSize(width: 10, height: 8), "\(border)")
            let reader = try PixelReader(image.data)
            for (x, y) in [(0, 0), (9, 0), (0, 7), (9, 7), (5, 4)] {
                #expect(near(reader.pixel(x, y), [255, 0, 0, 255]), "\(border) \(x) \(y)")
            }
            let whole = try EffectFixture.render(Self.trimmed(1000, nil), Self.framed(border))
            #expect(whole.size == PixelSize(width: 20, height: 15), "nothing is enlarged")
        }
    }

    @Test func theToleranceDecides() throws {
        let data = TestImage.png(width: 20, height: 20) { x, y in
            x == 8 && y == 3
                ? (200, 200, 211, 255) : (8..<12).contains(x) && y == 10 ? (0, 0, 0, 255) : (200, 200, 200, 255)
        }
        #expect(try EffectFixture.render(Self.trimmed(20, 20, 10), data).size == PixelSize(width: 4, height: 8))
        #expect(try EffectFixture.render(Self.trimmed(20, 20, 11), data).size == PixelSize(width: 4, height: 1))
        #expect(try EffectFixture.render(Self.trimmed(20, 20, 255), data).size == PixelSize(width: 20, height: 20))
    }

    @Test func anImageOfOneColorStaysWhole() throws {
        let data = TestImage.png(width: 30, height: 20) { _, _ in (7, 8, 9, 255) }
        #expect(try EffectFixture.render(Self.trimmed(30, 30), data).size == PixelSize(width: 30, height: 20))
    }

    /// All renditions come from one decode: those that are trimmed, and those that are not.
    @Test func trimmedAndWholeRenditionsCanBeMixed() throws {
        let data = Self.framed((255, 255, 255, 255))
        let images = try EffectFixture.render(
            [Rendition(width: 50, format: .png), Self.trimmed(20, nil), Self.trimmed(4, nil), Self.trimmed(8, nil, 0)],
            data
        )
        let sizes = [(50, 40), (20, 15), (4, 3), (8, 6)].map { PixelSize(width: $0.0, height: $0.1) }
        #expect(images.map(\.size) == sizes)
    }

    @Test func thePointIsThatOfTheWholeSource() throws {
        // Left half red, right half blue; the point is in the blue half of the whole source.
        let data = TestImage.png(width: 60, height: 20) { x, y in
            (20..<40).contains(x) && (5..<15).contains(y)
                ? (255, 0, 0, 255)
                : (40..<60).contains(x) && (5..<15).contains(y) ? (0, 0, 255, 255) : (255, 255, 255, 255)
        }
        let rendition = EffectFixture.png(10, 10) { rendition in
            (rendition.trim, rendition.fit) = (10, .cover)
            rendition.focus = Rendition.FocalPoint(x: 50.0 / 60, y: 0.5)
        }
        #expect(try EffectFixture.quarters(EffectFixture.render(rendition, data)) == [.blue, .blue, .blue, .blue])
    }

    @Test func trimmingPrecedesTheRotation() throws {
        let rendition = EffectFixture.png(nil, 20) { ($0.trim, $0.rotate) = (10, .quarter) }
        let image = try EffectFixture.render(rendition, Self.framed((255, 255, 255, 255)))
        #expect(image.size == PixelSize(width: 15, height: 20))
    }

    /// The part that remains of an animation is the one that any of its frames needs.
    @Test func framesAreTrimmedAlike() throws {
        let frames = try TestPicture.animation(24, 12, frames: 3, as: .gif)
        var rendition = Rendition(width: 24, format: .webp, lossless: true, animated: true)
        rendition.trim = 10
        // The first frame is black and the others are lighter as a whole.
        let result = try EffectFixture.render(rendition, frames)
        #expect(result.size == PixelSize(width: 24, height: 12))
        #expect(try PixelReader(result.data, options: "n=-1").height == 36)
    }

    /// A part may be narrower than the whole, and then a width alone asks for a higher result.
    @Test func aPartHasTheLimitsOfAnyResult() throws {
        let data = TestImage.png(width: 200, height: 200) { x, _ in
            (100..<102).contains(x) ? (0, 0, 0, 255) : (255, 255, 255, 255)
        }
        var limits = RenderLimits()
        limits.outputSide = 150
        let cover = EffectFixture.png(20, 20) { ($0.trim, $0.fit, $0.enlarge) = (10, .cover, true) }
        #expect(throws: ImageError(.outputTooLarge, "")) { try EffectFixture.render(cover, data, limits: limits) }
        let inside = EffectFixture.png(20, nil) { ($0.trim, $0.enlarge) = (10, true) }
        let image = try EffectFixture.render(inside, data, limits: limits)
        #expect(image.size.height == 150, "a size that follows from the part is reduced")
    }
}
