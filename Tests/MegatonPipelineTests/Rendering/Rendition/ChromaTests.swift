import Foundation
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The chroma subsampling of encoded images.
@Suite struct ChromaTests {
    private static func rendition(
        _ chroma: Rendition.Chroma?,
        _ format: Rendition.Format = .jpeg,
        quality: Int = 80
    ) -> Rendition {
        var rendition = Rendition(width: 51, format: format, quality: quality)
        rendition.chroma = chroma
        return rendition
    }

    private func render(_ data: Data, _ rendition: Rendition, _ engine: any RenderEngine) throws -> EncodedImage {
        let plan = try RenderPlan(probing: data, AssetType.jpeg, [rendition], engine, RenderLimits())
        return try engine.execute(plan, data, deadline: RenderDeadline(.now + .seconds(60)))[0]
    }

    /// Sampling factors in the headers of JPEGs from libvips and from planes, whatever the sampling of the source.
    @Test(arguments: [TestSampling.s444, .s422, .s420], [true, false])
    func aJPEGHasTheSampling(_ source: TestSampling, usesPlanes: Bool) throws {
        let data = try source.jpeg(120, 90) { x, y in (UInt8(2 * x), UInt8(2 * y), x < 60 ? 0 : 255) }
        let engine: any RenderEngine = usesPlanes ? RoutingEngine(isStrict: true) : VipsEngine()
        let cases: [(Rendition.Chroma?, quality: Int, ChromaSampling)] = [
            (nil, 80, .s420), (nil, 89, .s420), (nil, 90, .s444), (.s420, 80, .s420), (.s420, 95, .s420),
            (.s444, 30, .s444), (.s444, 95, .s444),
        ]
        for (chroma, quality, sampling) in cases {
            let image = try render(data, Self.rendition(chroma, quality: quality), engine)
            #expect(JPEGHeader(image.data)?.sampling == sampling, "\(source) \(chroma?.rawValue ?? "-") \(quality)")
            #expect((image.maker == .planes) == usesPlanes && image.size == PixelSize(width: 51, height: 38))
        }
    }

    /// Naming the default sampling gives the same bytes under another key.
    @Test(arguments: [true, false]) func theDefaultIsOneOfBoth(usesPlanes: Bool) throws {
        let data = try TestSampling.s420.jpeg(120, 90) { x, y in (UInt8(2 * x), UInt8(2 * y), 90) }
        let engine: any RenderEngine = usesPlanes ? RoutingEngine(isStrict: true) : VipsEngine()
        for (chroma, quality) in [(Rendition.Chroma.s420, 80), (.s444, 90)] {
            let plain = try render(data, Self.rendition(nil, quality: quality), engine).data
            #expect(try render(data, Self.rendition(chroma, quality: quality), engine).data == plain)
        }
        let (less, more) = (Self.rendition(.s420, quality: 90), Self.rendition(.s444, quality: 80))
        #expect(try render(data, less, engine).data != render(data, Self.rendition(nil, quality: 90), engine).data)
        #expect(try render(data, more, engine).data != render(data, Self.rendition(nil), engine).data)
    }

    /// Gray images have no chroma.
    @Test(arguments: [true, false]) func aGrayJPEGStaysGray(usesPlanes: Bool) throws {
        let gray = try TestPicture.plain(80, 60, [100])
        let data = try VipsEngine().encode(gray, Rendition(quality: 90), RenderDeadline(.now + .seconds(60)))
        let engine: any RenderEngine = usesPlanes ? RoutingEngine(isStrict: true) : VipsEngine()
        for chroma in Rendition.Chroma.allCases {
            let image = try render(data, Self.rendition(chroma), engine)
            #expect(JPEGHeader(image.data)?.sampling == .gray)
        }
    }

    /// `chroma_subsampling_x` and `_y` of the AV1 codec configuration (AV1-ISOBMFF section 2.3.3).
    @Test func anAVIFHasTheSampling() throws {
        let data = try TestPicture.jpeg(120, 90)
        let cases: [(Rendition.Chroma?, quality: Int, bits: UInt8)] = [
            (nil, 50, 3), (nil, 95, 0), (.s420, 95, 3), (.s444, 50, 0),
        ]
        for (chroma, quality, bits) in cases {
            let image = try render(data, Self.rendition(chroma, .avif, quality: quality), VipsEngine()).data
            let box = try #require(image.range(of: Data("av1C".utf8)))
            #expect(image[box.upperBound + 2] >> 2 & 3 == bits, "\(chroma?.rawValue ?? "-") \(quality)")
        }
    }

    @Test func otherFormatsRefuseIt() {
        for format in Rendition.Format.allCases {
            let error = Self.rendition(.s444, format).validationError
            let isFine = format == .jpeg || format == .avif
            #expect(error == (isFine ? nil : "chroma is for jpeg and avif, not \(format.rawValue)"))
            #expect(Self.rendition(nil, format).validationError == nil)
        }
    }

    @Test func itIsPartOfTheIdentityIfItIsSet() throws {
        #expect(Self.rendition(nil).identity == ["51", "", "inside", "jpeg", "80", "#ffffff"])
        #expect(Self.rendition(.s420).identity == ["51", "", "inside", "jpeg", "80", "#ffffff", "chroma=420"])
        #expect(Self.rendition(.s444).identity.last == "chroma=444")
        let json = try JSONEncoder().encode(Self.rendition(.s444))
        #expect(String(decoding: json, as: UTF8.self).contains(#""chroma":"444""#))
        #expect(try JSONDecoder().decode(Rendition.self, from: json) == Self.rendition(.s444))
        let plain = try JSONEncoder().encode(Self.rendition(nil))
        #expect(!String(decoding: plain, as: UTF8.self).contains("chroma"))
    }
}
