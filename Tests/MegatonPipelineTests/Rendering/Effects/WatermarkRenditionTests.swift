import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Texts and images on renditions.
@Suite(.timeLimit(.minutes(2))) struct WatermarkRenditionTests {
    private static let plain = TestImage.png(width: 200, height: 100) { _, _ in (0, 0, 200, 255) }

    private func reader(_ watermark: Rendition.Watermark, _ data: Data = plain) throws -> PixelReader {
        let rendition = EffectFixture.png(200, 100) { $0.watermark = watermark }
        return try PixelReader(EffectFixture.render(rendition, data).data)
    }

    /// A red mark of 20x10 pixels, as a pipeline hands it to the engine.
    private static func mark(
        _ position: Rendition.Watermark.Position,
        _ change: (inout Rendition.Watermark) -> Void = { _ in }
    ) -> Rendition.Watermark {
        var watermark = Rendition.Watermark(.image("red.png"), position: position)
        change(&watermark)
        watermark.overlay = WatermarkPixels(
            digest: "a",
            size: PixelSize(width: 20, height: 10),
            bands: 3,
            pixels: Data((0..<200).flatMap { _ in [255, 0, 0] as [UInt8] })
        )
        return watermark
    }

    /// The box of the pixels that differ from the source.
    private func changed(_ reader: PixelReader) -> PixelBox? {
        let all = (0..<reader.height).flatMap { y in
            (0..<reader.width).compactMap { x in
                near(reader.pixel(x, y), [0, 0, 200, 255], by: 4) ? nil : (x: x, y: y)
            }
        }
        guard let left = all.map(\.x).min(), let right = all.map(\.x).max(), let top = all.map(\.y).min(),
            let bottom = all.map(\.y).max()
        else { return nil }
        return PixelBox(left: left, top: top, size: PixelSize(width: right - left + 1, height: bottom - top + 1))
    }

    // MARK: - Images

    private static let places: [(Rendition.Watermark.Position, Int, Int)] = [
        (.northWest, 5, 5), (.north, 90, 5), (.northEast, 175, 5), (.west, 5, 45), (.center, 90, 45), (.east, 175, 45),
        (.southWest, 5, 85), (.south, 90, 85), (.southEast, 175, 85),
    ]

    @Test(arguments: places.indices) func anImageLiesAtItsPlace(_ index: Int) throws {
        let (position, left, top) = Self.places[index]
        let box = changed(try reader(Self.mark(position) { $0.margin = 5 }))
        #expect(box == PixelBox(left: left, top: top, size: PixelSize(width: 20, height: 10)), "\(position)")
    }

    @Test func opacityAndScale() throws {
        let half = try reader(Self.mark(.northWest) { $0.opacity = 0.5 })
        #expect(near(half.pixel(3, 3), [128, 0, 100, 255], by: 3))
        #expect(changed(try reader(Self.mark(.center) { $0.opacity = 0 })) == nil)
        let wide = changed(try reader(Self.mark(.northWest) { $0.scale = 0.5 }))
        #expect(wide?.size == PixelSize(width: 100, height: 50))
        let whole = changed(try reader(Self.mark(.northWest) { $0.scale = 1 }))
        #expect(whole?.size == PixelSize(width: 200, height: 100))
        let within = changed(try reader(Self.mark(.center) { ($0.scale, $0.margin) = (1, 40) }))
        #expect(within == PixelBox(left: 80, top: 40, size: PixelSize(width: 40, height: 20)), "the margin bounds it")
    }

    @Test func copiesCoverTheImage() throws {
        let reader = try reader(Self.mark(.repeat) { $0.margin = 10 })
        for (x, y) in [(0, 0), (99, 43), (150, 20), (25, 5), (5, 15)] {
            let isRed = x % 30 < 20 && y % 20 < 10
            #expect(near(reader.pixel(x, y), isRed ? [255, 0, 0, 255] : [0, 0, 200, 255]), "\(x) \(y)")
        }
    }

    /// The shift of imgproxy: inwards from an edge, to the right and down from the middle.
    @Test func aShiftMovesAnImageFromItsPlace() throws {
        for (position, x, y, left, top) in [
            (.northWest, 7, 3, 7, 3), (.northEast, 7, 3, 173, 3), (.southWest, 7, 3, 7, 87),
            (.southEast, 0.1, 0.25, 160, 65), (.center, 7, -3, 97, 42), (.north, -10, 4, 80, 4),
            (.east, 0.05, 8, 170, 53), (.west, 500, 0, 199, 45), (.south, 0, 500, 90, -9),
        ] as [(Rendition.Watermark.Position, Double, Double, Int, Int)] {
            let box = changed(try reader(Self.mark(position) { ($0.x, $0.y) = (x, y) }))
            let (right, bottom) = (min(200, left + 20), min(100, top + 10))
            let size = PixelSize(width: right - max(0, left), height: bottom - max(0, top))
            #expect(box == PixelBox(left: max(0, left), top: max(0, top), size: size), "\(position) \(x) \(y)")
        }
        let beside = changed(try reader(Self.mark(.southEast) { ($0.margin, $0.x) = (5, 10) }))
        #expect(beside == PixelBox(left: 165, top: 85, size: PixelSize(width: 20, height: 10)), "beside the margin")
    }

    @Test func copiesHaveSpacesOfTheirOwnInBothDirections() throws {
        let reader = try reader(Self.mark(.repeat) { ($0.x, $0.y) = (20, 0.1) })
        for (x, y) in [(0, 0), (10, 5), (29, 14), (30, 10), (50, 25), (69, 34), (5, 5), (15, 17)] {
            let isRed = (10..<30).contains(x % 40) && (5..<15).contains(y % 20)
            #expect(near(reader.pixel(x, y), isRed ? [255, 0, 0, 255] : [0, 0, 200, 255]), "\(x) \(y)")
        }
    }

    @Test func aMarkIsAboveThePadding() throws {
        let rendition = EffectFixture.png(200, 100) { rendition in
            (rendition.padding, rendition.watermark) = (.init(10), Self.mark(.southEast))
        }
        let reader = try PixelReader(EffectFixture.render(rendition, Self.plain).data)
        #expect(reader.width == 220 && reader.pixel(219, 119) == [255, 0, 0, 255])
    }

    @Test func aGrayImageBecomesColoredByAColoredMark() throws {
        let gray = try VipsEngine().encode(
            TestPicture.plain(200, 100, [90]),
            Rendition(format: .png),
            RenderDeadline(.now + .seconds(60))
        )
        let colored = try reader(Self.mark(.northWest), gray)
        #expect(colored.bands == 3 && near(colored.pixel(2, 2), [255, 0, 0]))
        #expect(near(colored.pixel(100, 50), [90, 90, 90]))
        #expect(try reader(Rendition.Watermark(.text("a")), gray).bands == 1, "text has no colors")
    }

    @Test func anImageThatIsNotResolvedIsAnError() throws {
        let rendition = EffectFixture.png(200, 100) { $0.watermark = Rendition.Watermark(.image("red.png")) }
        let error = #expect(throws: ImageError.self) { try EffectFixture.render(rendition, Self.plain) }
        #expect(error?.code == .renderFailed && error?.message.contains("red.png") == true)
    }

    // MARK: - Text

    @Test func aTextIsWhiteWithADarkHalo() throws {
        let reader = try reader(Rendition.Watermark(.text("HI"), position: .center, scale: 0.4))
        let box = try #require(changed(reader))
        #expect((80...100).contains(box.size.width), "\(box)")
        #expect(abs(box.left + box.size.width / 2 - 100) <= 2 && abs(box.top + box.size.height / 2 - 50) <= 2)
        let pixels = (0..<200).map { reader.pixel($0, 50) }
        #expect(pixels.contains { $0[0] > 240 && $0[1] > 240 })
        #expect(pixels.contains { $0[2] < 150 }, "the halo is darker than the image")
    }

    /// The characters of markup are letters like others; they would change the font or fail otherwise.
    @Test(arguments: ["a & b", "<b>x</b>", "</span>", "&amp;", "©️ 日本 ♥"]) func textIsNotMarkup(_ text: String) throws {
        let box = changed(try reader(Rendition.Watermark(.text(text), position: .northWest)))
        #expect(box != nil)
        if text == "&amp;" {
            let short = changed(try reader(Rendition.Watermark(.text("&"), position: .northWest)))
            #expect((box?.size.width ?? 0) > 2 * (short?.size.width ?? 0))
        }
    }

    @Test func aLongTextIsMadeSmaller() throws {
        let text = String(repeating: "wide ", count: 51)
        let box = try #require(changed(try reader(Rendition.Watermark(.text(text), margin: 10))))
        #expect(box.left >= 8 && box.left + box.size.width <= 192)
        let upright = try #require(changed(try reader(Rendition.Watermark(.text("I"), position: .center, scale: 1))))
        #expect(upright.size.width < 100, "its height is bounded, too")
    }

    @Test func eachFrameHasTheMark() throws {
        let data = try TestPicture.animation(60, 40, frames: 2, as: .gif)
        var rendition = Rendition(width: 60, format: .webp, lossless: true, animated: true)
        rendition.watermark = Self.mark(.northWest)
        let frames = try PixelReader(EffectFixture.render(rendition, data).data, options: "n=-1")
        #expect(frames.height == 80)
        for frame in 0..<2 { #expect(near(Array(frames.pixel(5, frame * 40 + 5).prefix(3)), [255, 0, 0], by: 3)) }
    }

    // MARK: - Identity

    @Test func theBytesOfAnImageArePartOfTheIdentity() {
        var (one, other) = (Rendition(width: 5), Rendition(width: 5))
        (one.watermark, other.watermark) = (Self.mark(.north), Self.mark(.north))
        #expect(one.identity == other.identity)
        other.watermark?.content = .image("copy.png")
        #expect(one.identity == other.identity, "the same bytes under another name")
        #expect(one.identity.last == "watermark=north,1.0,natural,0,sha256:a", "keys from before there was a shift")
        one.watermark?.y = 2
        #expect(one.identity.last == "watermark=north,1.0,natural,0,0.0:2.0,sha256:a")
        other.watermark?.overlay = WatermarkPixels(
            digest: "b",
            size: PixelSize(width: 1, height: 1),
            bands: 1,
            pixels: Data([0])
        )
        #expect(one.identity != other.identity)
    }
}
