import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Compares the two engines: an image looks the same whichever engine made it.
@Suite(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"), .timeLimit(.minutes(5)))
struct EngineComparisonTests {
    /// How much farther than libvips' image an image may be from libvips' lossless rendering of all pixels: the mean of
    /// the differences, 0 to 255. JPEG quantization adds more to the difference between the two images than the engines
    /// do.
    private static let tolerance = 1.6

    private static let wanted = [
        Rendition(name: "inside", width: 256, height: 256, quality: 90),
        Rendition(name: "halved", width: 255, height: 251, quality: 85),
        Rendition(name: "cover", width: 101, height: 77, fit: .cover, quality: 90, gravity: .southEast),
        Rendition(name: "middle", width: 64, height: 64, fit: .cover, quality: 85, focus: .init(x: 0.3, y: 0.6)),
        Rendition(name: "outside", width: 97, height: 111, fit: .outside, quality: 85),
        Rendition(name: "fill", width: 99, height: 140, fit: .fill, quality: 95),
        Rendition(name: "fast", width: 120, quality: 90, qualityProfile: .fast),
        Rendition(name: "faithful", width: 120, quality: 90, qualityProfile: .faithful),
        Rendition(name: "webp", width: 131, height: 131, format: .webp, quality: 90),
        Rendition(name: "progressive", width: 90, quality: 85, progressive: true),
    ]

    /// JPEGs that have planes.
    private static let names: [String] = {
        let all = FileManager.default.enumerator(atPath: Corpus.path(""))?.compactMap { $0 as? String } ?? []
        return all.sorted().filter { name in
            guard !name.hasPrefix("bad/"), let data = try? Corpus.data(name), AssetType(data) == .jpeg else {
                return false
            }
            return JPEGHeader(data)?.probe.planes != nil
        }
    }()

    @Test func thereIsEnoughToCompare() {
        #expect(Self.names.count > 60)
        let samplings = Set(Self.names.compactMap { (try? Corpus.data($0)).flatMap(JPEGHeader.init)?.sampling })
        #expect(samplings == [.gray, .s444, .s420])
        let turned = Set(Self.names.compactMap { (try? Corpus.data($0)).flatMap(JPEGHeader.init)?.orientation })
        #expect(turned == Set(1...8))
    }

    @Test func theyMakeTheSameImages() async throws {
        let compared = TestLog<String>()
        let names = LongTests.sample(Self.names, every: 3)
        try await inPairs(names) { name in
            let data = try Corpus.data(name)
            guard let made = try all(data, Self.wanted) else { return }
            compared.append(name)
            try expectLikeness(made, Self.wanted, name)
        }
        #expect(compared.count > names.count * 9 / 10)
    }

    /// The corpus has no 4:2:2 images: photographs from it in other samplings, with odd sides.
    @Test(arguments: ["edge/nuke/baseline.jpeg", "edge/libvips/sample.jpg", "edge/sharp/centered_image.jpeg"])
    func halfTheColoursInARowAreEnough(_ name: String) throws {
        let photograph = try PixelReader(try Corpus.data(name))
        for sampling in [TestSampling.s422, .s444] {
            for (width, height) in [(photograph.width, photograph.height), (photograph.width / 2 | 1, 75)] {
                let data = try sampling.jpeg(width - 1 | 1, height - 1 | 1) { x, y in
                    let pixel = photograph.pixel(min(x, photograph.width - 1), min(y, photograph.height - 1))
                    return (pixel[0], pixel[1], pixel[2])
                }
                let made = try #require(try all(data, Self.wanted))
                try expectLikeness(made, Self.wanted, "\(name) \(sampling) \(width)")
            }
        }
    }

    /// Enlarged smooth waves of colors: each pixel shows the color at its center. Not compared with libvips, which
    /// enlarges with another kernel and half a pixel off (seen in 8.14.1; its issue 4841).
    @Test(arguments: [TestSampling.s444, .s422, .s420], [1, 4, 6])
    func enlargedPixelsStayInTheirPlace(_ sampling: TestSampling, _ orientation: Int) throws {
        let wanted = [
            Rendition(name: "inside", width: 150, height: 171, quality: 90, enlarge: true),
            Rendition(name: "outside", width: 150, height: 171, fit: .outside, quality: 85, enlarge: true),
            Rendition(name: "cover", width: 201, height: 140, fit: .cover, quality: 90, enlarge: true),
            Rendition(name: "fill", width: 131, height: 160, fit: .fill, quality: 85, enlarge: true),
            Rendition(name: "webp", width: 187, format: .webp, quality: 90, enlarge: true),
            Rendition(name: "kept", width: 500, height: 500, fit: .outside, quality: 90),
        ]
        let data = try Self.waves(93, 95, orientation, sampling)
        let plan = RenderPlan(try #require(JPEGHeader(data)).probe, wanted)
        for (step, trio) in zip(plan.steps, try #require(try all(data, wanted))) {
            let what = "\(step.rendition.name)"
            let image = trio.planes
            #expect(image.width == trio.vips.width && image.height == trio.vips.height, "\(what)")
            let (columns, rows) = (Array(0..<image.width), Array(0..<image.height))
            let whole = Self.distanceToWaves(image, step, plan.probe.uprightSize, columns, rows)
            #expect(whole < 3, "\(what): \(whole)")
            for (name, columns, rows) in [
                ("left", [0], rows), ("right", [image.width - 1], rows), ("top", columns, [0]),
                ("bottom", columns, [image.height - 1]),
            ] {
                let edge = Self.distanceToWaves(image, step, plan.probe.uprightSize, columns, rows)
                // Beyond an odd side of the source lies half a chroma sample, which the encoder has extrapolated.
                #expect(edge < 10, "\(what) \(name): \(edge)")
            }
        }
    }

    /// Small colorful images, in which a chroma sample half a pixel off would be visible.
    @Test(arguments: 1...8, [Rendition.Format.jpeg, .webp]) func coloursLieWhereTheyBelong(
        _ orientation: Int,
        _ format: Rendition.Format
    ) throws {
        for sampling in [TestSampling.s444, .s422, .s420] {
            let data = try Self.stripes(93, 95, orientation, sampling)
            for (quality, side) in [80, 92].flatMap({ quality in [16, 17, 33, 40].map { (quality, $0) } }) {
                let rendition = Rendition(width: side, height: side, fit: .fill, format: format, quality: quality)
                let made = try #require(try all(data, [rendition]))
                try expectEdges(made[0], "\(sampling) \(side) \(quality)")
                try expectLikeness(made, [rendition], "\(sampling) \(side) \(quality)")
            }
        }
    }

    private func expectEdges(_ trio: Trio, _ what: String) throws {
        for edge in Edge.allCases {
            let (ours, theirs) = trio.distances(edge.distance)
            #expect(ours <= theirs + 4.5, "\(what) \(edge): \(ours) and \(theirs)")
        }
    }

    private func expectLikeness(_ made: [Trio], _ wanted: [Rendition], _ name: String) throws {
        for (rendition, trio) in zip(wanted, made) {
            let what = "\(name) \(rendition.name)"
            try #require(trio.planes.width == trio.vips.width && trio.planes.height == trio.vips.height, "\(what)")
            try #require(trio.planes.bands == trio.vips.bands, "\(what)")
            let (ours, theirs) = trio.distances { $0.distance(to: $1) }
            #expect(ours <= theirs + Self.tolerance, "\(what): \(ours) and \(theirs)")
        }
    }

    /// A rendition by each engine, and the expected image.
    private struct Trio {
        let planes: PixelReader
        let vips: PixelReader
        let truth: PixelReader

        func distances(_ measure: (PixelReader, PixelReader) -> Double) -> (ours: Double, theirs: Double) {
            (measure(planes, truth), measure(vips, truth))
        }
    }

    /// - Returns: nil if the image is damaged.
    private func all(_ data: Data, _ wanted: [Rendition]) throws -> [Trio]? {
        let deadline = RenderDeadline(.now + .seconds(60))
        let strict = RoutingEngine(isStrict: true)
        let plan = RenderPlan(try strict.probe(data, type: .jpeg), wanted)
        var ours = [EncodedImage?](repeating: nil, count: wanted.count)
        let planes = PlanesEngine()
        for pass in plan.passes {
            try #require(pass.usesPlanes)
            guard let made = try planes.render(pass, of: plan, from: data, deadline: deadline) else { return nil }
            for (index, image) in zip(pass.steps, made) { ours[index] = image }
        }
        let vips = VipsEngine()
        let probe = try vips.probe(data, type: .jpeg)
        let theirs = try vips.execute(RenderPlan(probe, wanted), data, deadline: deadline)
        let faithful = wanted.map { rendition in
            var rendition = rendition
            (rendition.format, rendition.quality, rendition.progressive) = (.png, 80, false)
            rendition.qualityProfile = .faithful
            return rendition
        }
        // One by one: a rendition made from another's base differs a little from one made from all pixels.
        let truth = try faithful.map { rendition in
            try vips.execute(RenderPlan(probe, [rendition]), data, deadline: deadline)[0]
        }
        return try wanted.indices.map { index in
            Trio(
                planes: try PixelReader(try #require(ours[index]).data),
                vips: try PixelReader(theirs[index].data),
                truth: try PixelReader(truth[index].data)
            )
        }
    }

    /// Broad stripes of colors, to be rotated.
    private static func stripes(
        _ width: Int,
        _ height: Int,
        _ orientation: Int,
        _ sampling: TestSampling
    ) throws -> Data {
        let jpeg = try sampling.jpeg(width, height) { x, y in
            let level = UInt8(255 * x / width)
            return switch (y / 24 + x / 31) % 3 {
            case 0: (255, level, 0)
            case 1: (0, 255, level)
            default: (level, 0, 255)
            }
        }
        return TestJPEG.inserting(TestJPEG.exif(orientation: orientation), into: jpeg)
    }

    /// Waves that are upright after the rotation.
    private static func waves(
        _ width: Int,
        _ height: Int,
        _ orientation: Int,
        _ sampling: TestSampling
    ) throws -> Data {
        let jpeg = try sampling.jpeg(width, height) { x, y in
            let (right, down) =
                switch orientation {
                case 4: (x, height - 1 - y)
                case 6: (height - 1 - y, x)
                default: (x, y)
                }
            let color = wave(Double(right), Double(down)).map { UInt8($0.rounded()) }
            return (color[0], color[1], color[2])
        }
        return TestJPEG.inserting(TestJPEG.exif(orientation: orientation), into: jpeg)
    }

    /// The color at a place, in pixels from the center of the first one.
    private static func wave(_ x: Double, _ y: Double) -> [Double] {
        [x / 40, y / 37, (x + y) / 50].map { 128 + 100 * sin(2 * .pi * $0) }
    }

    /// Mean difference, 0 to 255 per channel.
    private static func distanceToWaves(
        _ image: PixelReader,
        _ step: RenderPlan.Step,
        _ source: PixelSize,
        _ columns: [Int],
        _ rows: [Int]
    ) -> Double {
        var start = (left: 0, top: 0)
        if case .at(let left, let top) = step.crop?.place { start = (left, top) }
        let ratio = (
            across: Double(source.width) / Double(step.scaled.width),
            down: Double(source.height) / Double(step.scaled.height)
        )
        var sum = 0.0
        for y in rows {
            for x in columns {
                let color = wave(
                    (Double(start.left + x) + 0.5) * ratio.across - 0.5,
                    (Double(start.top + y) + 0.5) * ratio.down - 0.5
                )
                sum += zip(image.pixel(x, y), color).reduce(0) { $0 + abs(Double($1.0) - $1.1) }
            }
        }
        return sum / Double(3 * rows.count * columns.count)
    }

    private enum Edge: CaseIterable {
        case left, right, top, bottom

        /// Root mean square of the differences along this edge.
        func distance(_ one: PixelReader, _ other: PixelReader) -> Double {
            let places: [(Int, Int)] =
                switch self {
                case .left: (0..<one.height).map { (0, $0) }
                case .right: (0..<one.height).map { (one.width - 1, $0) }
                case .top: (0..<one.width).map { ($0, 0) }
                case .bottom: (0..<one.width).map { ($0, one.height - 1) }
                }
            let sum = places.reduce(0.0) { sum, place in
                let (first, second) = (one.pixel(place.0, place.1), other.pixel(place.0, place.1))
                return zip(first, second).reduce(sum) { $0 + Double((Int($1.0) - Int($1.1)) * (Int($1.0) - Int($1.1))) }
            }
            return (sum / Double(places.count * 3)).squareRoot()
        }
    }
}
