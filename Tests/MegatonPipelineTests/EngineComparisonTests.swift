import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

/// The two engines, held together: whoever makes a picture, it looks the same.
@Suite(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"), .timeLimit(.minutes(5)))
struct EngineComparisonTests {
    /// How much farther than libvips' a picture may be from what libvips makes of all pixels, without loss: the mean of the
    /// differences, of 255. What the quantisation of JPEG makes of the two differs by more than what they are.
    private static let tolerance = 1.6

    private static let wanted = [
        Rendition(name: "inside", width: 256, height: 256, quality: 90),
        Rendition(name: "halved", width: 255, height: 251, quality: 85),
        Rendition(name: "cover", width: 101, height: 77, fit: .cover, quality: 90, gravity: .southEast),
        Rendition(name: "middle", width: 64, height: 64, fit: .cover, quality: 85, focus: .init(x: 0.3, y: 0.6)),
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
        #expect(samplings == [.grey, .s444, .s420])
        let turned = Set(Self.names.compactMap { (try? Corpus.data($0)).flatMap(JPEGHeader.init)?.orientation })
        #expect(turned == Set(1...8))
    }

    @Test func theyMakeTheSamePictures() throws {
        var count = 0
        for name in Self.names {
            let data = try Corpus.data(name)
            guard let made = try all(data, Self.wanted) else { continue }
            count += 1
            for (rendition, trio) in zip(Self.wanted, made) {
                let what = "\(name) \(rendition.name)"
                try #require(trio.planes.width == trio.vips.width && trio.planes.height == trio.vips.height, "\(what)")
                try #require(trio.planes.bands == trio.vips.bands, "\(what)")
                let (ours, theirs) = trio.distances { $0.distance(to: $1) }
                #expect(ours <= theirs + Self.tolerance, "\(what): \(ours) and \(theirs)")
            }
        }
        #expect(count > 55)
    }

    /// Small colourful pictures: a sample of colour that lies half a pixel beside its place would be seen here.
    @Test(arguments: 1...8, [Rendition.Format.jpeg, .webp]) func coloursLieWhereTheyBelong(
        _ orientation: Int,
        _ format: Rendition.Format
    ) throws {
        for quality in [80, 92] {
            for side in [16, 17, 33, 40] {
                let rendition = Rendition(width: side, height: side, fit: .fill, format: format, quality: quality)
                let trio = try #require(try all(Self.stripes(93, 95, orientation), [rendition]))[0]
                for edge in Edge.allCases {
                    let (ours, theirs) = trio.distances(edge.distance)
                    #expect(ours <= theirs + 4, "\(side) \(quality) \(edge): \(ours) and \(theirs)")
                }
                let (ours, theirs) = trio.distances { $0.distance(to: $1) }
                #expect(ours <= theirs + Self.tolerance, "\(side) \(quality): \(ours) and \(theirs)")
            }
        }
    }

    /// A rendition by each engine, and what it should look like.
    private struct Trio {
        let planes: PixelReader
        let vips: PixelReader
        let truth: PixelReader

        func distances(_ measure: (PixelReader, PixelReader) -> Double) -> (ours: Double, theirs: Double) {
            (measure(planes, truth), measure(vips, truth))
        }
    }

    /// Nil for what is damaged.
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
        // One by one: what is made of another one's base is not quite what is made of all pixels.
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

    /// Broad stripes of colours, in 4:2:0, to be turned.
    private static func stripes(_ width: Int, _ height: Int, _ orientation: Int) throws -> Data {
        let png = TestImage.png(width: width, height: height) { x, y in
            let level = UInt8(255 * x / width)
            return switch (y / 24 + x / 31) % 3 {
            case 0: (255, level, 0, 255)
            case 1: (0, 255, level, 255)
            default: (level, 0, 255, 255)
            }
        }
        let engine = VipsEngine()
        let plan = RenderPlan(try engine.probe(png, type: .png), [Rendition(width: width, height: height, quality: 89)])
        let jpeg = try engine.execute(plan, png, deadline: RenderDeadline(.now + .seconds(60)))[0].data
        return TestJPEG.inserting(TestJPEG.exif(orientation: orientation), into: jpeg)
    }

    private enum Edge: CaseIterable {
        case left, right, top, bottom

        /// Root mean square along it.
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
