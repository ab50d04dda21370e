import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Facts about pixels, as both engines find them.
@Suite struct PixelFactsTests {
    private static func facts(
        _ data: Data,
        _ renditions: [Rendition] = [Rendition(width: 64)],
        engine: RenderEngineChoice = .auto
    ) throws -> SourceFacts {
        let engine = engine.engine
        let plan = try RenderPlan(
            probing: data,
            #require(AssetType(data)),
            renditions,
            engine,
            RenderLimits()
        )
        let images = try engine.execute(plan, data, deadline: RenderDeadline(.now + .seconds(30)))
        try #require(images.count == renditions.count)
        return try #require(images.first?.facts)
    }

    /// Blobs of several sizes and colors, so that neighboring frequencies differ.
    private static func textured(_ width: Int, _ height: Int) throws -> PlatformImage {
        var pixels = Data(capacity: width * height * 3)
        for y in 0..<height {
            for x in 0..<width {
                let (u, v) = (Double(x) / Double(width), Double(y) / Double(height))
                let wave = sin(9 * u + 2) * cos(7 * v) + sin(4 * u * v + 1) + cos(13 * v * v + 5 * u)
                let value = max(0, min(255, 128 + 40 * wave))
                pixels.append(contentsOf: [UInt8(value), UInt8(255 - value), UInt8(value / 2 + 60 * u)])
            }
        }
        return try #require(PlatformImage(width: width, height: height, bands: 3, pixels: pixels))
    }

    private static func encoded(_ image: PlatformImage, _ format: Rendition.Format, quality: Int = 90) throws -> Data {
        try #require(ImageEncoders.Vips(format: format, quality: quality).encode(image))
    }

    private static func distance(_ one: UInt64?, _ other: UInt64?) throws -> Int {
        try (#require(one) ^ #require(other)).nonzeroBitCount
    }

    private static func isNear(_ color: Color?, _ red: Int, _ green: Int, _ blue: Int) -> Bool {
        guard let color else { return false }
        return abs(Int(color.red) - red) < 12 && abs(Int(color.green) - green) < 12 && abs(Int(color.blue) - blue) < 12
    }

    // MARK: - Perceptual hash

    @Test func theHashStaysWithSizeAndCompression() throws {
        let original = try Self.facts(Self.encoded(Self.textured(800, 600), .png)).perceptualHash
        let small = try Self.facts(Self.encoded(Self.textured(200, 150), .png)).perceptualHash
        let jpeg = try Self.facts(Self.encoded(Self.textured(800, 600), .jpeg, quality: 40)).perceptualHash
        let webp = try Self.facts(Self.encoded(Self.textured(400, 300), .webp, quality: 50)).perceptualHash
        for other in [small, jpeg, webp] { #expect(try Self.distance(original, other) <= 8) }
    }

    @Test func otherImagesHaveOtherHashes() throws {
        let one = try Self.facts(Self.encoded(Self.textured(400, 300), .png)).perceptualHash
        let other = try Self.facts(TestImage.quarters(width: 400, height: 300)).perceptualHash
        #expect(try Self.distance(one, other) > 16)
    }

    // MARK: - Dominant color

    @Test func theMostFrequentColorIsDominant() throws {
        // Two thirds are blue, a third is orange: their average is gray.
        let image = TestImage.png(width: 90, height: 60) { x, _ in x < 60 ? (20, 40, 200, 255) : (240, 160, 20, 255) }
        #expect(Self.isNear(try Self.facts(image).dominantColor, 20, 40, 200))
    }

    @Test func aQuarterIsDominantAmongQuarters() throws {
        let color = try Self.facts(TestImage.quarters(width: 96, height: 96)).dominantColor
        let quarters = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)]
        #expect(quarters.contains { Self.isNear(color, $0.0, $0.1, $0.2) }, "\(String(describing: color))")
    }

    @Test func transparentPixelsHaveNoColor() throws {
        let png = Rendition(width: 32, format: .png)
        let hidden = TestImage.png(width: 64, height: 64) { x, _ in x < 48 ? (255, 0, 0, 0) : (0, 128, 0, 255) }
        let facts = try Self.facts(hidden, [png])
        #expect(Self.isNear(facts.dominantColor, 0, 128, 0) && facts.hasAlpha)
        let nothing = TestImage.png(width: 64, height: 64) { _, _ in (255, 0, 0, 0) }
        #expect(try Self.facts(nothing, [png]).dominantColor == nil)
    }

    // MARK: - Engines

    @Test func enginesAgree() throws {
        let jpeg = try Self.encoded(Self.textured(800, 600), .jpeg, quality: 90)
        let planes = try Self.facts(jpeg, engine: .planes)
        let vips = try Self.facts(jpeg, engine: .vips)
        #expect(try Self.distance(planes.perceptualHash, vips.perceptualHash) <= 8)
        let (one, other) = (try #require(planes.thumbHash), try #require(vips.thumbHash))
        // The constants and the numbers of terms. Scales and terms differ by rounding.
        #expect(one.count == other.count && one[3] & 7 == other[3] & 7 && one[4] & 128 == other[4] & 128)
        #expect(abs(Int(one[0] & 63) - Int(other[0] & 63)) <= 1)
        #expect((planes.width, planes.height, planes.bytes) == (800, 600, jpeg.count))
    }

    /// A crop shows a part, and the facts are about the whole.
    @Test(arguments: [RenderEngineChoice.auto, .vips])
    func cropsDoNotCount(_ engine: RenderEngineChoice) throws {
        let image = TestImage.png(width: 300, height: 100) { x, _ in
            (100..<200).contains(x) ? (250, 220, 30, 255) : (20, 40, 200, 255)
        }
        let cover = Rendition(width: 50, height: 50, fit: .cover)
        #expect(Self.isNear(try Self.facts(image, [cover], engine: engine).dominantColor, 20, 40, 200))
        let several = [cover, Rendition(name: "b", width: 30, height: 30, fit: .cover)]
        #expect(Self.isNear(try Self.facts(image, several, engine: engine).dominantColor, 20, 40, 200))
    }

    /// An image too large to be held is sampled where it is encoded: in its crop, without gaps.
    @Test func aLargeCropIsSampledItself() throws {
        let image = TestImage.png(width: 300, height: 100) { x, _ in
            (100..<200).contains(x) ? (250, 220, 30, 255) : (20, 40, 200, 255)
        }
        let large = Rendition(width: 1600, height: 1600, fit: .cover, enlarge: true)
        let facts = try Self.facts(image, [large])
        #expect(Self.isNear(facts.dominantColor, 250, 220, 30))
        #expect(try #require(facts.thumbHash)[4] & 128 == 0, "the crop is a square")
    }

    /// Facts about pixels are upright; the size is that of the stored image.
    @Test(arguments: [RenderEngineChoice.planes, .vips])
    func turnedImagesAreUpright(_ engine: RenderEngineChoice) throws {
        let stored = try Self.encoded(Self.textured(320, 200), .jpeg, quality: 95)
        let turned = TestJPEG.inserting(TestJPEG.exif(orientation: 6), into: stored)
        let facts = try Self.facts(turned, engine: engine)
        #expect((facts.width, facts.height, facts.orientation) == (320, 200, 6))
        let hash = try #require(facts.thumbHash)
        #expect(hash[4] & 128 == 0, "a portrait")
        let plain = try #require(try Self.facts(stored, engine: engine).thumbHash)
        #expect(plain[4] & 128 == 128 && plain != hash)
    }

    @Test func anAnimationIsItsFirstFrame() throws {
        let animation = try TestPicture.animation(64, 48, frames: 5, as: .gif)
        let facts = try Self.facts(animation, [Rendition(width: 32, format: .webp, animated: true)])
        #expect(facts.isAnimated && facts.frames == 5 && facts.format == "gif")
        #expect(Self.isNear(facts.dominantColor, 0, 0, 0), "the first frame is black")
    }

    @Test func smallAndNarrowImagesHaveFacts() throws {
        for (width, height) in [(1, 1), (3, 2), (500, 1), (1, 500)] {
            let facts = try Self.facts(TestImage.quarters(width: width, height: height), [Rendition(width: 16)])
            #expect(facts.thumbHash?.isEmpty == false && facts.perceptualHash != nil, "\(width)x\(height)")
        }
    }

    @Test(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"))
    func orientationsOfThePhotoHaveOneHash() throws {
        let upright = try Self.facts(Corpus.data("edge/exif/Landscape_1.jpg"))
        for orientation in 2...8 {
            let turned = try Self.facts(Corpus.data("edge/exif/Landscape_\(orientation).jpg"))
            #expect(turned.orientation == orientation)
            #expect(try Self.distance(upright.perceptualHash, turned.perceptualHash) <= 8, "\(orientation)")
        }
    }
}
