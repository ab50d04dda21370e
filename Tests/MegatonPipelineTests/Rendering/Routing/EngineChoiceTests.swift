import Foundation
import Logging
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The choice of a render engine.
@Suite struct EngineChoiceTests {
    private static let jpeg = Result { try TestPicture.jpeg(240, 160) }

    private func plan(_ renditions: [Rendition], _ data: Data? = nil) throws -> RenderPlan {
        let data = try data ?? Self.jpeg.get()
        return try RenderPlan(probing: data, .jpeg, renditions, RoutingEngine(isStrict: false), RenderLimits())
    }

    private func render(_ renditions: [Rendition], _ data: Data, isStrict: Bool) throws -> [EncodedImage] {
        let engine = RoutingEngine(isStrict: isStrict)
        return try engine.execute(plan(renditions, data), data, deadline: RenderDeadline(.now + .seconds(60)))
    }

    @Test(arguments: [
        Rendition(width: 50), Rendition(width: 50, quality: 100), Rendition(width: 50, format: .webp),
        Rendition(width: 50, height: 50, fit: .cover, gravity: .east), Rendition(width: 500, enlarge: true),
        Rendition(width: 50, height: 60, fit: .fill), Rendition(width: 50, height: 50, fit: .outside),
        Rendition(width: 500, height: 500, fit: .outside, enlarge: true),
        Rendition(width: 500, height: 300, fit: .cover, enlarge: true),
        Rendition(width: 500, height: 300, fit: .fill, enlarge: true),
        Rendition(width: 50, progressive: true), Rendition(width: 50, profile: .keep),
        Rendition(width: 50, qualityProfile: .fast),
    ])
    func planesMakeThumbnails(_ rendition: Rendition) throws {
        #expect(try plan([rendition]).passes.map(\.usesPlanes) == [true])
    }

    @Test(arguments: [
        Rendition(width: 50, format: .png), Rendition(width: 50, format: .gif), Rendition(width: 50, format: .avif),
        Rendition(width: 50, format: .webp, lossless: true), Rendition(width: 50, keepMetadata: .copyright),
        Rendition(width: 50, height: 50, fit: .contain),
        Rendition(width: 50, height: 50, fit: .cover, gravity: .attention),
        Rendition(width: 50, height: 50, fit: .cover, gravity: .entropy),
    ])
    func libvipsMakesAllElse(_ rendition: Rendition) async throws {
        #expect(try plan([rendition]).passes.map(\.usesPlanes) == [false])
        let strict = ImagePipeline { $0.renderEngine = .planes }
        let data = try Self.jpeg.get()
        let request = ImageRequest(url: URL(string: "data:image/jpeg;base64,\(data.base64EncodedString())"))
        #expect(
            await TestPipeline.code { try await strict.renditions([rendition], for: request) } == .unsupportedFormat
        )
        let image = try await ImagePipeline().renditions([rendition], for: request)[0]
        #expect(AssetType(image.data)?.description == rendition.format.rawValue)
    }

    /// A request that insists on planes gets the reason in the error.
    @Test(arguments: [
        (Rendition(width: 500, height: 500, fit: .contain, enlarge: true), "canvas"),
        (Rendition(width: 500, height: 300, fit: .cover, gravity: .entropy, enlarge: true), "depends on the pixels"),
        (Rendition(width: 500, format: .png, enlarge: true), "needs pixels"),
    ])
    func anImageLeftToLibvipsHasAReason(_ rendition: Rendition, _ reason: String) throws {
        #expect {
            try render([rendition], Self.jpeg.get(), isStrict: true)
        } throws: {
            let error = $0 as? ImagePipeline.Error
            return error?.code == .unsupportedFormat && error?.message.contains(reason) == true
        }
    }

    @Test(arguments: [TestSampling.s440, .s411]) func rareSamplingsAreLibvips(_ sampling: TestSampling) throws {
        let data = try sampling.jpeg(93, 71) { x, y in (UInt8(2 * x), UInt8(3 * y), 90) }
        #expect(try plan([Rendition(width: 50)], data).passes.map(\.usesPlanes) == [false])
        let made = try render([Rendition(width: 50)], data, isStrict: false)
        #expect(made.map(\.size) == [PixelSize(width: 50, height: 38)])
        #expect {
            try render([Rendition(width: 50)], data, isStrict: true)
        } throws: {
            let error = $0 as? ImagePipeline.Error
            return error?.code == .unsupportedFormat && error?.message.contains("usual sampling") == true
        }
    }

    @Test func otherSourcesAreLibvips() throws {
        let wide = TestJPEG.inserting(TestJPEG.profile(Data(TestProfile.p3)), into: try Self.jpeg.get())
        #expect(try plan([Rendition(width: 50)], wide).passes.map(\.usesPlanes) == [false])
        let srgb = TestJPEG.inserting(TestJPEG.profile(Data(TestProfile.srgb)), into: try Self.jpeg.get())
        #expect(try plan([Rendition(width: 50)], srgb).passes.map(\.usesPlanes) == [true])
        #expect(try plan([Rendition(width: 50, profile: .keep)], srgb).passes.map(\.usesPlanes) == [false])
    }

    /// One decode for all renditions made by planes, one for the others; the results keep their order.
    @Test func aMixtureIsTwoPasses() throws {
        let wanted = [
            Rendition(name: "a", width: 50), Rendition(name: "b", width: 40, format: .png),
            Rendition(name: "c", width: 30, format: .webp),
        ]
        let plan = try plan(wanted)
        #expect(plan.passes.map(\.steps) == [[0, 2], [1]] && plan.passes.map(\.usesPlanes) == [true, false])
        let data = try Self.jpeg.get()
        let images = try RoutingEngine(isStrict: false).execute(
            plan,
            data,
            deadline: RenderDeadline(.now + .seconds(60))
        )
        #expect(images.map(\.size.width) == [50, 40, 30])
        #expect(images.map { AssetType($0.data) } == [.jpeg, .png, .webp])
    }

    /// libvips reports the kind of damage; the planar engine only declines.
    @Test func damageIsLibvipsPart() throws {
        let data = try Self.jpeg.get()
        let plan = try plan([Rendition(width: 50)])
        let cut = data.prefix(data.count / 2)
        let deadline = RenderDeadline(.now + .seconds(60))
        #expect(try PlanesEngine().render(plan.passes[0], of: plan, from: cut, deadline: deadline) == nil)
        #expect {
            try RoutingEngine(isStrict: false).execute(plan, cut, deadline: deadline)
        } throws: { ($0 as? ImagePipeline.Error)?.code == .corruptImage }
    }

    /// Unexpected bytes before the end: damage for the planar engine, a warning for libvips.
    @Test func imagesThatPlanesDeclineAreReportedAndCounted() async throws {
        let log = LogRecorder()
        let pipeline = ImagePipeline { $0.logger = Logger(label: "test") { _ in log } }
        let wanted = [
            Rendition(name: "a", width: 50), Rendition(name: "b", width: 40, format: .png),
            Rendition(name: "c", width: 30, format: .webp),
        ]
        let sound = try Self.jpeg.get()
        let damaged = sound.dropLast(2) + Data(repeating: 0x12, count: 40) + sound.suffix(2)
        for (data, made, left) in [(sound, 2, 0), (damaged, 0, 2)] {
            let url = URL(string: "data:image/jpeg;base64,\(data.base64EncodedString())")
            let metrics = PipelineMetrics()
            _ = try await pipeline.renditions(wanted, for: ImageRequest(url: url), metrics: metrics)
            let counts = metrics.counts
            #expect(counts.renders == 3 && counts.rendersByPlanes == made && counts.planarFallbacks == left)
            let lines = log.recorded.filter { $0.contains("the planes engine could not decode an image") }
            #expect(lines.count == (left > 0 ? 1 : 0) && lines.allSatisfy { $0.contains("renditions=2") }, "\(lines)")
        }
    }

    // Fault: a decompressor keeps the tables of the previous image, and uses them for one that has none.
    @Test func anImageWithoutTablesIsDeclined() throws {
        let data = try Self.jpeg.get()
        let plan = try plan([Rendition(width: 50)])
        let (engine, deadline) = (PlanesEngine(), RenderDeadline(.now + .seconds(60)))
        #expect(try engine.render(plan.passes[0], of: plan, from: data, deadline: deadline) != nil)
        let bare = TestJPEG.removing(0xDB, from: data)
        try #require(bare.count < data.count)
        #expect(try engine.render(plan.passes[0], of: plan, from: bare, deadline: deadline) == nil)
    }

    /// A header that differs from the image that follows.
    @Test func anImageThatDiffersFromItsHeaderIsDeclined() throws {
        let plan = try plan([Rendition(width: 50)])
        let other = try TestPicture.jpeg(100, 160)
        let deadline = RenderDeadline(.now + .seconds(60))
        #expect(try PlanesEngine().render(plan.passes[0], of: plan, from: other, deadline: deadline) == nil)
    }

    @Test(arguments: [Rendition.Format.jpeg, .webp]) func aRenderEndsWhenNoRequestWaits(_ format: Rendition.Format)
        throws
    {
        let plan = try plan([Rendition(width: 50, format: format)])
        let deadline = RenderDeadline(.now + .seconds(60))
        deadline.cancel()
        #expect {
            try RoutingEngine(isStrict: false).execute(plan, Self.jpeg.get(), deadline: deadline)
        } throws: { ($0 as? ImagePipeline.Error)?.code == .cancelled }
    }

    @Test func theSameJobGivesTheSameBytes() throws {
        let plan = try plan([Rendition(width: 101), Rendition(name: "w", width: 50, format: .webp)])
        let made = try (0..<3).map { _ in
            let engine = RoutingEngine(isStrict: true)
            return try engine.execute(plan, Self.jpeg.get(), deadline: RenderDeadline(.now + .seconds(60))).map(\.data)
        }
        #expect(made[0] == made[1] && made[1] == made[2])
    }

    // Fault: TurboJPEG's compressor kept the tables of a progressive image, and wrote the next image with them.
    @Test func aProgressiveImageLeavesNothingBehind() throws {
        let engine = RoutingEngine(isStrict: true)
        let plain = try plan([Rendition(width: 60)])
        let progressive = try plan([Rendition(width: 60, progressive: true)])
        let data = try Self.jpeg.get()
        let made = try [plain, progressive, plain].map {
            try engine.execute($0, data, deadline: RenderDeadline(.now + .seconds(60)))[0].data
        }
        #expect(made[0] == made[2])
        #expect(try VipsEngine().probe(made[1], type: .jpeg).isProgressive)
    }

    /// Each chosen engine has its own cache keys, so that the output of one is not used for another.
    @Test func aChosenEngineHasKeysOfItsOwn() {
        let key = CacheKey(.original, ["a"])
        let keys = RenderEngineChoice.allCases.map { key.rendition(Rendition(width: 5), by: $0) }
        #expect(Set(keys).count == 3 && keys[0] == key.rendition(Rendition(width: 5)))
    }

    @Test(arguments: [
        (1000, Rendition.QualityProfile.fast, 8), (1000, .balanced, 4), (1000, .faithful, 1), (400, .fast, 4),
        (400, .balanced, 2), (399, .fast, 2), (399, .balanced, 1), (200, .fast, 2), (200, .balanced, 1),
        (100, .fast, 1),
    ])
    func profilesSetTheMargin(_ width: Int, _ profile: Rendition.QualityProfile, _ shrink: Int) {
        let plan = RenderPlan(Self.highProbe(width), [Rendition(width: 100, qualityProfile: profile)])
        #expect(plan.shrink(plan.passes[0]) == shrink)
    }

    /// A JPEG that is twice as high as wide.
    private static func highProbe(_ width: Int) -> ImageProbe {
        ImageProbe(
            type: .jpeg,
            width: width,
            height: 2 * width,
            bands: 3,
            frames: 1,
            orientation: 1,
            isProgressive: false
        )
    }

    /// Planes leave less to the resampling than libvips does, if the quantization of a JPEG hides the difference.
    @Test(arguments: [
        (1200, Rendition.QualityProfile.balanced, 8), (1199, .balanced, 4), (600, .balanced, 4), (599, .balanced, 2),
        (300, .balanced, 2), (299, .balanced, 1), (800, .fast, 8), (1200, .faithful, 1),
    ])
    func planesHaveASmallerMargin(_ width: Int, _ profile: Rendition.QualityProfile, _ shrink: Int) {
        var probe = Self.highProbe(width)
        probe.planes = .s420
        let plan = RenderPlan(probe, [Rendition(width: 100, quality: 90, qualityProfile: profile)])
        #expect(plan.shrink(plan.passes[0]) == shrink)
    }

    /// Fault: a PNG lost 6 dB, as its pixels came from planes of 1.5 times its size.
    @Test(arguments: [(Rendition.Format.png, 80), (.webp, 80), (.avif, 80), (.jpeg, 91)])
    func finerResultsHaveTheMarginOfLibvips(_ format: Rendition.Format, _ quality: Int) {
        for (width, shrink) in [(1599, 4), (799, 2), (399, 1)] {
            var probe = Self.highProbe(width)
            probe.planes = .s420
            let plan = RenderPlan(probe, [Rendition(width: 100, format: format, quality: quality)])
            #expect(plan.shrink(plan.passes[0]) == shrink, "\(width)")
        }
    }

    @Test func profilesAreDecodesOfTheirOwn() throws {
        let wanted = Rendition.QualityProfile.allCases.map {
            Rendition(name: $0.rawValue, width: 20, qualityProfile: $0)
        }
        #expect(try plan(wanted + wanted).passes.map(\.steps) == [[0, 3], [1, 4], [2, 5]])
    }

    /// Planes are held in memory as a whole, so they count with their full size.
    @Test func planesAreAdmittedByTheirSize() throws {
        var probe = ImageProbe(
            type: .jpeg,
            width: 8000,
            height: 4000,
            bands: 3,
            frames: 1,
            orientation: 1,
            isProgressive: false
        )
        probe.planes = .s420
        let small = RenderPlan(probe, [Rendition(width: 100)]).cost.bytes
        let large = RenderPlan(probe, [Rendition(width: 100, qualityProfile: .faithful)]).cost.bytes
        #expect(large >= 8000 * 4000 * 3 / 2 && small < large)
        probe.isProgressive = true
        #expect(RenderPlan(probe, [Rendition(width: 100)]).cost.bytes >= 8000 * 4000 * 3)
    }

    /// The engine that is named before a rendition is made is the one that the router chooses.
    @Test func theForecastNamesTheEngineAndTheReason() throws {
        let jpeg = try Self.jpeg.get()
        let small = Rendition(width: 50)
        let square = Rendition(width: 50, height: 50, fit: .cover, gravity: .attention)
        #expect(EngineForecast(small, of: jpeg).engine == "planes")
        #expect(try plan([small]).passes[0].usesPlanes)
        #expect(EngineForecast(square, of: jpeg).engine == "libvips")
        #expect(EngineForecast(square, of: jpeg).reason == "the crop depends on the pixels")
        #expect(EngineForecast(square, of: nil) == EngineForecast(square, of: jpeg), "the rendition alone decides")
        #expect(EngineForecast(small, of: nil).engine == nil, "it depends on the source")
        let png = TestImage.quarters(width: 8, height: 8)
        #expect(EngineForecast(small, of: png).engine == nil, "it depends on more than the beginning")
        #expect(EngineForecast(Rendition(width: 50, format: .png), of: png).engine == "libvips")
        #expect(EngineForecast(small, of: Data("GIF89a".utf8)).engine == "libvips")
        #expect(EngineForecast(small, of: jpeg, choice: .vips).engine == "libvips")
        #expect(EngineForecast(square, of: jpeg, choice: .planes).engine == nil)
    }
}
