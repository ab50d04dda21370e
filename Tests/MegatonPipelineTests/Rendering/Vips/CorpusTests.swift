import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Real and odd files through the engine. Skipped if the corpus is missing.
@Suite(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"), .timeLimit(.minutes(3)))
struct CorpusTests {
    private func render(_ name: String, _ renditions: [Rendition]) throws -> [EncodedImage] {
        let data = try Corpus.data(name)
        let engine = VipsEngine()
        let type = try #require(AssetType(data), "\(name)")
        let probe = try engine.probe(data, type: type)
        return try engine.execute(RenderPlan(probe, renditions), data, deadline: RenderDeadline(.now + .seconds(30)))
    }

    private static let png = Rendition(width: 128, height: 128, format: .png)

    @Test(arguments: [
        "photos/p001.jpg", "edge/nuke/progressive.jpeg", "edge/nuke/grayscale.jpeg",
        "edge/nuke/fixture.png", "edge/nuke/baseline.webp", "edge/nuke/cat.gif",
        "edge/nuke/img_751.heic", "edge/lilliput/colors_sdr_srgb.avif", "edge/nuke/image-p3.jpg",
        "edge/lilliput/rotation-irot90.avif", "edge/libvips/avif-orientation-6.avif",
        "edge/sharp/Channel_digital_image_CMYK_color.jpg", "edge/sharp/16-bit-grey-alpha.png",
        "edge/libvips/looks-like-svg.webp", "edge/libvips/indexed.png",
    ])
    func everyFormatIsReadAndWritten(_ name: String) throws {
        try VipsRuntime.allow([.jxl])
        let formats = Rendition.Format.allCases
        let images = try render(name, formats.map { Rendition(name: $0.rawValue, width: 128, height: 128, format: $0) })
        for (format, image) in zip(formats, images) {
            #expect(AssetType(image.data)?.description == format.rawValue, "\(name) to \(format)")
            #expect(max(image.size.width, image.size.height) <= 128 && min(image.size.width, image.size.height) >= 1)
        }
    }

    /// The eight EXIF orientations render to the same image.
    @Test(arguments: ["edge/exif/Landscape_", "edge/sharp/Landscape_", "edge/sharp/Portrait_"], 2...8)
    func orientationsAreUpright(_ prefix: String, _ orientation: Int) throws {
        let upright = try render("\(prefix)1.jpg", [Self.png])[0]
        let turned = try render("\(prefix)\(orientation).jpg", [Self.png])[0]
        let distance = try PixelReader(upright.data).distance(to: PixelReader(turned.data))
        #expect(distance < 12, "\(prefix)\(orientation)")
    }

    @Test func oneOfSeveralLooksLikeItDoesAlone() throws {
        let many = try render(
            "photos/p005.jpg",
            [Rendition(name: "l", width: 640, format: .png), Self.png]
        )
        let alone = try render("photos/p005.jpg", [Self.png])
        let distance = try PixelReader(many[1].data).distance(to: PixelReader(alone[0].data))
        #expect(distance < 6, "\(distance)")
    }

    @Test func theSameJobGivesTheSameBytes() throws {
        let wanted = [Rendition(width: 100), Rendition(width: 50, format: .webp)]
        #expect(try render("photos/p009.jpg", wanted).map(\.data) == render("photos/p009.jpg", wanted).map(\.data))
    }

    @Test func wideColoursBecomeSRGB() throws {
        let png = try PixelReader(render("edge/nuke/image-p3.jpg", [Self.png])[0].data)
        #expect(png.bands == 3)
    }

    /// No broken or hostile file crashes the process or takes long; every decodable file renders.
    @Test func badFilesGiveAnImageOrAClearError() async throws {
        var configuration = ImagePipeline.Configuration()
        configuration.fileAccess = FileAccess(roots: [Corpus.path("bad")])
        let pipeline = ImagePipeline(configuration: configuration)
        let names = FileManager.default.enumerator(atPath: Corpus.path("bad"))?.compactMap { $0 as? String } ?? []
        var failures = 0
        for name in names.sorted() {
            let path = Corpus.path("bad/\(name)")
            var isDirectory: ObjCBool = false
            _ = FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory)
            if isDirectory.boolValue { continue }
            do {
                let request = ImageRequest(url: URL(fileURLWithPath: path))
                let response = try await pipeline.renditions([Self.png], for: request)[0]
                #expect(AssetType(response.data) == .png, "\(name)")
            } catch {
                failures += 1
                let known: Set<ImagePipeline.Error.Code> = [
                    .unsupportedFormat, .corruptImage, .imageTooLarge, .sideTooLong, .dataIsEmpty,
                ]
                #expect(known.contains(error.code), "\(name): \(error)")
                #expect(error.message.contains(name), "\(error)")
            }
        }
        #expect(failures > 30, "the corpus is a bad one")
    }

    @Test func truncatedImagesAreRefused() throws {
        for name in ["bad/libvips/truncated.jpg", "bad/sharp/truncated.jpg", "bad/sharp/truncated.png"] {
            #expect { try render(name, [Self.png]) } throws: { ($0 as? ImagePipeline.Error)?.code == .corruptImage }
        }
    }

    @Test func aRenderThatTakesTooLongIsEnded() throws {
        let data = try Corpus.data("photos/p001.jpg")
        let engine = VipsEngine()
        let probe = try engine.probe(data, type: .jpeg)
        let plan = RenderPlan(probe, [Rendition(width: 1000, format: .png)])
        #expect {
            try engine.execute(plan, data, deadline: RenderDeadline(.now - .seconds(1)))
        } throws: { ($0 as? ImagePipeline.Error)?.code == .renderTimedOut }
        let several = RenderPlan(probe, [Rendition(width: 1000, format: .png), Rendition(width: 10)])
        #expect {
            try engine.execute(several, data, deadline: RenderDeadline(.now - .seconds(1)))
        } throws: { ($0 as? ImagePipeline.Error)?.code == .renderTimedOut }
        let cancelled = RenderDeadline(.now + .seconds(60))
        cancelled.cancel()
        #expect {
            try engine.execute(plan, data, deadline: cancelled)
        } throws: { ($0 as? ImagePipeline.Error)?.code == .cancelled }
    }
}
