import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

@Suite(.timeLimit(.minutes(2))) struct WatermarkTests {
    private typealias Watermark = ImageProcessors.Watermark

    private static let places: [(Rendition.Gravity, Int, Int)] = [
        (.northWest, 0, 0), (.north, 10, 0), (.northEast, 20, 0), (.west, 0, 5), (.center, 10, 5), (.east, 20, 5),
        (.southWest, 0, 10), (.south, 10, 10), (.southEast, 20, 10),
    ]

    @Test(arguments: places.indices) func liesAtItsPlace(_ index: Int) throws {
        let (gravity, left, top) = Self.places[index]
        let base = try ProcessorFixture.plain(24, 13, [0, 0, 200])
        let mark = try ProcessorFixture.plain(4, 3, [255, 0, 0])
        let result = try ProcessorFixture.run(Watermark(overlay: mark, gravity: gravity), base)
        #expect(result.bands == 3)
        for (x, y, isWithin) in [
            (left, top, true), (left + 3, top + 2, true), (left + 4, top, false), (left - 1, top, false),
            (left, top + 3, false), (left, top - 1, false),
        ] where (0..<24).contains(x) && (0..<13).contains(y) {
            #expect(result.pixel(x, y) == (isWithin ? [255, 0, 0] : [0, 0, 200]), "\(gravity) \(x) \(y)")
        }
    }

    @Test func opacityMixes() throws {
        let base = try ProcessorFixture.plain(6, 6, [0, 0, 200])
        let mark = try ProcessorFixture.plain(6, 6, [255, 0, 0])
        let half = try ProcessorFixture.run(Watermark(overlay: mark, opacity: 0.5), base)
        #expect(near(half.pixel(3, 3), [128, 0, 100]))
        #expect(try ProcessorFixture.run(Watermark(overlay: mark, opacity: 0), base) === base)
        let transparent = try ProcessorFixture.plain(6, 6, [255, 0, 0, 0])
        #expect(near(try ProcessorFixture.run(Watermark(overlay: transparent), base).pixel(3, 3), [0, 0, 200], by: 1))
        let clear = try ProcessorFixture.plain(6, 6, [0, 0, 0, 0])
        let onNothing = try ProcessorFixture.run(Watermark(overlay: mark, opacity: 0.5), clear)
        #expect(near(onNothing.pixel(0, 0), [255, 0, 0, 128]))
    }

    /// As the watermark of a rendition with the same options.
    @Test func anImageHasScaleMarginAndShift() throws {
        let base = try ProcessorFixture.plain(100, 50, [0, 0, 200])
        let mark = try ProcessorFixture.plain(4, 2, [255, 0, 0])
        // The name is no file.
        var options = Rendition.Watermark(.image("my logo"), position: .southEast, scale: 0.2, margin: 5)
        options.x = 10
        let placed = ImageProcessors.PlacedWatermark(options, overlay: mark)
        let result = try ProcessorFixture.run(placed, base)
        #expect(result.size == base.size && result.bands == 3)
        for (x, y, isWithin) in [(65, 35, true), (84, 44, true), (64, 35, false), (85, 44, false), (65, 34, false)] {
            #expect(result.pixel(x, y) == (isWithin ? [255, 0, 0] : [0, 0, 200]), "\(x) \(y)")
        }
        #expect(try ProcessorFixture.failure(ImageProcessors.PlacedWatermark(options), base) == .processingFailed)
        options.scale = 2
        let tooWide = ImageProcessors.PlacedWatermark(options, overlay: mark)
        #expect(try ProcessorFixture.failure(tooWide, base) == .processingFailed)
    }

    @Test func aTextIsDrawn() throws {
        let base = try ProcessorFixture.plain(200, 100, [0, 100, 0])
        let text = ImageProcessors.PlacedWatermark(
            Rendition.Watermark(.text("\u{A9} <a>"), position: .west, scale: 0.4)
        )
        let result = try ProcessorFixture.run(text, base)
        let columns = (0..<200).filter { x in (0..<100).contains { result.pixel(x, $0) != [0, 100, 0] } }
        #expect(columns.contains { $0 < 80 } && !columns.contains { $0 > 90 })
        let empty = ImageProcessors.PlacedWatermark(Rendition.Watermark(.text(" ")))
        #expect(try ProcessorFixture.failure(empty, base) == .processingFailed)
    }

    @Test func tilesCoverTheImage() throws {
        let base = try ProcessorFixture.plain(11, 7, [0, 0, 200])
        let mark = try ProcessorFixture.picture(2, 2, bands: 4) { x, y in x == y ? [255, 0, 0, 255] : [0, 0, 0, 0] }
        let result = try ProcessorFixture.run(Watermark(overlay: mark, tile: true), base)
        #expect(result.size == base.size)
        for y in 0..<7 {
            for x in 0..<11 { #expect(result.pixel(x, y) == ((x + y) % 2 == 0 ? [255, 0, 0] : [0, 0, 200])) }
        }
    }

    @Test func aWatermarkThatIsTooLargeIsScaledDown() throws {
        let base = try ProcessorFixture.plain(10, 20, [0, 0, 200])
        let mark = try ProcessorFixture.plain(100, 100, [255, 0, 0])
        let result = try ProcessorFixture.run(Watermark(overlay: mark, gravity: .south), base)
        #expect(result.size == base.size)
        #expect(result.pixel(5, 15) == [255, 0, 0])
        #expect(result.pixel(5, 5) == [0, 0, 200])
    }

    @Test func everyKindLiesOnEveryOther() throws {
        for bands in 1...4 {
            let base = try ProcessorFixture.scene(9, 9, bands: bands)
            for other in 1...4 {
                let mark = try ProcessorFixture.scene(3, 3, bands: other)
                let result = try ProcessorFixture.run(Watermark(overlay: mark, opacity: 0.7), base)
                #expect(result.size == base.size)
                #expect(result.hasAlpha == base.hasAlpha)
                #expect(result.bands >= bands)
            }
        }
        let grey = try ProcessorFixture.plain(4, 4, [100])
        let white = try ProcessorFixture.plain(1, 1, [255])
        let result = try ProcessorFixture.run(Watermark(overlay: white, gravity: .northWest), grey)
        #expect(result.bands == 1)
        #expect(result.pixel(0, 0) == [255])
        #expect(result.pixel(1, 1) == [100])
    }

    @Test func aWatermarkThatCannotBePlacedIsRefused() throws {
        let image = try ProcessorFixture.map(4, 4)
        for opacity in [-0.1, 1.1, .nan] {
            let mark = Watermark(overlay: image, opacity: opacity)
            #expect(try ProcessorFixture.failure(mark, image) == .processingFailed)
        }
        #expect(try ProcessorFixture.failure(Watermark(overlay: image, gravity: .entropy), image) == .processingFailed)
    }

    @Test func anOverlayIsKnownByItsPixelsOrItsName() throws {
        let (one, same) = (try ProcessorFixture.map(4, 4), try ProcessorFixture.map(4, 4))
        let other = try ProcessorFixture.map(4, 5)
        #expect(Watermark(overlay: one) == Watermark(overlay: same))
        #expect(Watermark(overlay: one).identifier != Watermark(overlay: other).identifier)
        #expect(Watermark(overlay: one, id: "logo") == Watermark(overlay: other, id: "logo"))
        #expect(Watermark(overlay: one, id: "logo") != Watermark(overlay: one, id: "logo 2"))
    }
}
