import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// JPEGs that are written from planes.
@Suite struct JPEGPlanesTests {
    private static var later: RenderDeadline { RenderDeadline(.now + .seconds(60)) }

    /// Smooth planes.
    private static func image(_ size: PixelSize, _ sampling: ChromaSampling) throws -> PlanarImage {
        try PlanarImage(size, sampling) { plane, x, y in
            Int(128 + 50 * (sin(Double(x) / 9 + Double(plane)) + cos(Double(y) / 7)))
        }
    }

    /// The mean and the largest difference between an image and its JPEG, as TurboJPEG decodes it.
    private static func loss(_ image: PlanarImage, _ data: Data) throws -> (mean: Double, most: Int) {
        let probe = try #require(JPEGHeader(data)).probe
        #expect(probe.width == image.size.width && probe.height == image.size.height)
        #expect(probe.planes == image.sampling)
        let decoded = try #require(TurboJPEGCodec().decode(data, probe, shrink: 1))
        var (sum, count, most) = (0, 0, 0)
        for (plane, other) in zip(image.planes, decoded.planes) {
            for row in 0..<plane.height {
                for column in 0..<plane.width {
                    let sample = Int(plane.bytes[row * plane.stride + column])
                    let distance = abs(sample - Int(other.bytes[row * other.stride + column]))
                    (sum, count, most) = (sum + distance, count + 1, max(most, distance))
                }
            }
        }
        return (Double(sum) / Double(count), most)
    }

    /// Sides that end within a block, or within the unit of several blocks.
    private static let sides = [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64]

    @Test(arguments: [ChromaSampling.gray, .s444, .s422, .s420], [false, true])
    func samplesOfAnySizeReturn(_ sampling: ChromaSampling, _ progressive: Bool) throws {
        for width in Self.sides {
            for height in Self.sides {
                let image = try Self.image(PixelSize(width: width, height: height), sampling)
                let rendition = Rendition(width: width, quality: 100, progressive: progressive)
                let data = try #require(JPEGPlanes.encode(image, rendition, Self.later))
                let loss = try Self.loss(image, data)
                #expect(loss.most <= 3, "\(width) x \(height): \(loss)")
                #expect(try #require(JPEGHeader(data)).probe.isProgressive == progressive)
            }
        }
    }

    /// Huffman codes of its own, up to a size; both kinds are whole.
    @Test(arguments: [512, 513]) func largeImagesHaveUsualCodes(_ side: Int) throws {
        let image = try Self.image(PixelSize(width: side, height: side), .s420)
        let data = try #require(JPEGPlanes.encode(image, Rendition(width: side), Self.later))
        #expect(try Self.loss(image, data).mean < 2)
        // A marker and a length of 31 bytes begin each of the usual codes of means, and its own ones are shorter.
        let isUsual = data.range(of: Data([0xFF, 0xC4, 0x00, 0x1F])) != nil && data.range(of: Self.usualCodes) != nil
        #expect(isUsual == (side > 512))
    }

    /// The lengths of the usual codes of luma's other coefficients (ITU-T T.81 table K.5).
    private static let usualCodes = Data([0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7D])

    /// Noise of the highest quality, whose bytes are several times as many as the first buffer holds.
    @Test(arguments: [false, true]) func noiseIsWhole(_ progressive: Bool) throws {
        var random = SeededGenerator(seed: 3)
        let image = try Self.image(PixelSize(width: 500, height: 300), .s444)
        for plane in image.planes {
            for index in 0..<plane.stride * plane.height { plane.bytes[index] = .random(in: 0...255, using: &random) }
        }
        let rendition = Rendition(width: 500, quality: 100, progressive: progressive)
        let data = try #require(JPEGPlanes.encode(image, rendition, Self.later))
        #expect(data.count > 300_000)
        #expect(try Self.loss(image, data).most <= 3)
    }

    /// More than the 65,500 pixels of a side that libjpeg allows.
    @Test func aSideThatIsTooLongIsRefused() throws {
        let image = try Self.image(PixelSize(width: 65_501, height: 1), .gray)
        #expect(JPEGPlanes.encode(image, Rendition(width: 100), Self.later) == nil)
    }

    /// A progressive image of 50 megapixels takes seconds.
    @Test(arguments: [false, true]) func anExpiredDeadlineEndsTheEncoding(_ progressive: Bool) throws {
        let image = try Self.image(PixelSize(width: 300, height: 200), .s444)
        let deadline = RenderDeadline(.now - .seconds(1))
        let rendition = Rendition(width: 300, progressive: progressive)
        #expect(JPEGPlanes.encode(image, rendition, deadline) == nil)
        #expect(deadline.error?.code == .renderTimedOut)
    }

    /// The symbols of a small image are in memory, until its file is written; a large one has the usual codes.
    @Test func aSmallImageCostsItsSymbols() {
        var probe = ImageProbe(
            type: .jpeg,
            width: 600,
            height: 600,
            bands: 3,
            frames: 1,
            orientation: 1,
            isProgressive: false
        )
        probe.planes = .s420
        /// Bytes for each pixel beside those of an image of several scans, which has its coefficients in memory.
        func difference(_ side: Int, _ quality: Int) -> Double {
            func cost(_ rendition: Rendition) -> Double { Double(RenderPlan(probe, [rendition]).cost.bytes) }
            let plain = Rendition(width: side, height: side, quality: quality)
            let progressive = Rendition(width: side, height: side, quality: quality, progressive: true)
            return (cost(plain) - cost(progressive)) / Double(side * side)
        }
        #expect(difference(512, 80) > 0 && difference(513, 80) < -4)
        #expect(difference(512, 95) > 6 && difference(513, 95) < -4)
    }

    /// Planes that do not cover the image would be read beyond their end.
    @Test func planesThatAreTooSmallAreRefused() throws {
        let image = try Self.image(PixelSize(width: 20, height: 20), .s420)
        let large = PlanarImage(width: 23, height: 20, sampling: .s420, planes: image.planes)
        #expect(JPEGPlanes.encode(large, Rendition(width: 23), Self.later) == nil)
        let gray = PlanarImage(width: 20, height: 20, sampling: .s420, planes: [image.planes[0]])
        #expect(JPEGPlanes.encode(gray, Rendition(width: 20), Self.later) == nil)
    }

    @Test(arguments: [ChromaSampling.s420, .s444]) func divisorsFallWithTheQuality(_ sampling: ChromaSampling) {
        var former = JPEGQuantization(quality: 1, sampling)
        for quality in 2...100 {
            let tables = JPEGQuantization(quality: quality, sampling)
            for (table, other) in [(tables.luma, former.luma), (tables.chroma, former.chroma)] {
                #expect(table.count == 64 && table.allSatisfy { (1...255).contains($0) })
                #expect(zip(table, other).allSatisfy { $0 <= $1 }, "\(quality)")
            }
            former = tables
        }
        #expect(former.luma.allSatisfy { $0 == 1 } && former.chroma.allSatisfy { $0 == 1 })
    }

    /// The tables are for people's eyes, which a test cannot ask: by the mean of the squared differences too,
    /// photographs are closer to the source than with the tables of libjpeg, in fewer bytes.
    @Test(
        .enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"),
        arguments: LongTests.sample([80, 60, 92], every: 3)
    )
    func photographsAreSmallerAndCloser(_ quality: Int) throws {
        let wanted = [
            Rendition(name: "a", width: 256, height: 256, quality: quality),
            Rendition(name: "b", width: 700, height: 700, quality: quality),
        ]
        var bytes = [0, 0]
        var errors = [0.0, 0.0]
        let photographs = try [5, 9, 13, 17, 21, 25].map { number in
            try Corpus.data("photos/p\(number < 10 ? "00" : "0")\(number).jpg")
        }
        for data in photographs.filter({ JPEGHeader($0)?.probe.planes != nil }).prefix(4) {
            let vips = VipsEngine()
            let deadline = RenderDeadline(.now + .seconds(60))
            let strict = RoutingEngine(isStrict: true)
            let plan = RenderPlan(try vips.probe(data, type: .jpeg), wanted)
            let lossless = wanted.map { Rendition(name: $0.name, width: $0.width, height: $0.height, format: .png) }
            let exact = try vips.execute(RenderPlan(plan.probe, lossless), data, deadline: deadline)
            let ours = try strict.execute(RenderPlan(strict.probe(data, type: .jpeg), wanted), data, deadline: deadline)
            for (index, made) in [ours, try vips.execute(plan, data, deadline: deadline)].enumerated() {
                for (image, reference) in zip(made, exact) {
                    bytes[index] += image.data.count
                    errors[index] += Self.error(try PixelReader(image.data), try PixelReader(reference.data))
                }
            }
        }
        #expect(Double(bytes[0]) < 0.98 * Double(bytes[1]), "\(bytes)")
        #expect(errors[0] < errors[1], "\(errors)")
    }

    /// The mean of the squared differences.
    private static func error(_ image: PixelReader, _ other: PixelReader) -> Double {
        var sum = 0.0
        for y in 0..<image.height {
            for x in 0..<image.width {
                for (left, right) in zip(image.pixel(x, y), other.pixel(x, y)) {
                    sum += (Double(left) - Double(right)) * (Double(left) - Double(right))
                }
            }
        }
        return sum / Double(image.width * image.height)
    }
}
