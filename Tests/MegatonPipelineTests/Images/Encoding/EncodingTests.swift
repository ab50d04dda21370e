import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// Bytes from images.
@Suite(.timeLimit(.minutes(2))) struct EncodingTests {
    private func container(_ image: PlatformImage, type: AssetType? = nil, data: Data? = nil) -> ImageContainer {
        ImageContainer(image: image, type: type, data: data)
    }

    private func encode(_ container: ImageContainer) throws -> Data? {
        let request: ImageRequest = "https://example.org/a"
        let context = ImageEncodingContext(request: request, image: container.image)
        return try ImageEncoders.Default().encoded(container, context: context)
    }

    private func render(_ rendition: Rendition, _ data: Data) throws -> Data {
        let engine = VipsEngine()
        let probe = try engine.probe(data, type: try #require(AssetType(data)))
        let plan = RenderPlan(probe, [rendition])
        return try engine.execute(plan, data, deadline: RenderDeadline(.now + .seconds(60)))[0].data
    }

    @Test func theDefaultWritesJPEGOfWhatIsOpaqueAndPNGOfWhatIsNot() throws {
        let opaque = try #require(try encode(container(TestPicture.gradient(20, 10))))
        let clear = try #require(try encode(container(TestPicture.plain(20, 10, [255, 0, 0, 128]))))
        #expect(AssetType(opaque) == .jpeg && AssetType(clear) == .png)
        #expect(try PixelReader(clear).pixel(3, 3) == [255, 0, 0, 128])
        #expect(opaque == ImageEncoders.Vips(format: .jpeg, quality: 80).encode(try TestPicture.gradient(20, 10)))
        #expect(opaque != ImageEncoders.Default(quality: 30).encode(try TestPicture.gradient(20, 10)))
    }

    /// Nuke's method returns nil when the pipeline's throws the reason; otherwise both return the same.
    @Test func bothWaysToEncodeAgree() throws {
        let picture = container(try TestPicture.gradient(20, 10))
        let context = ImageEncodingContext(request: "https://example.org/a", image: picture.image)
        let counting = CountingEncoder(TaskTestBox([:]))
        let working: [any ImageEncoding] = [ImageEncoders.Default(), ImageEncoders.Vips(format: .png), counting]
        for encoder in working {
            let data = try #require(encoder.encode(picture, context: context))
            #expect(try encoder.encoded(picture, context: context) == data)
        }
        let broken: [any ImageEncoding] = [
            ImageEncoders.Default(quality: 0), ImageEncoders.Vips(format: .jpeg, quality: 0),
        ]
        for encoder in broken {
            #expect(encoder.encode(picture, context: context) == nil)
            #expect(throws: ImagePipeline.Error.self) { _ = try encoder.encoded(picture, context: context) }
        }
    }

    @Test func aGIFKeepsItsBytesUntilItIsChanged() throws {
        let data = try TestPicture.animation(20, 10, frames: 3, as: .gif)
        let decoded = try ImageDecoders.Default().decode(data)
        #expect(try encode(decoded) == data)
        let processed = try decoded.map {
            try #require(PlatformImage(width: 20, height: 10, bands: $0.bands, pixels: $0.pixels()))
        }
        #expect(try encode(processed).flatMap { AssetType($0) } == (processed.image.hasAlpha ? .png : .jpeg))
        let webp = try ImageDecoders.Default().decode(TestPicture.animation(20, 10, frames: 3, as: .webp))
        #expect(try encode(webp).flatMap { AssetType($0) } == .jpeg)
    }

    @Test(arguments: Rendition.Format.allCases) func writesEachFormat(_ format: Rendition.Format) throws {
        try VipsRuntime.allow([.jxl])
        for color: [UInt8] in [[90], [90, 128], [200, 100, 50], [200, 100, 50, 128]] {
            let encoder = ImageEncoders.Vips(format: format, quality: 95, background: .black)
            let data = try #require(encoder.encode(TestPicture.plain(24, 16, color)), "\(format) \(color)")
            #expect(AssetType(data)?.description == format.rawValue)
            #expect(data == encoder.encode(try TestPicture.plain(24, 16, color)), "two runs, the same bytes")
            let read = try PixelReader(data)
            #expect(read.width == 24 && read.height == 16)
            let isGrey = color.count < 3
            if color.count % 2 == 1 {
                let pixel = read.pixel(12, 8)
                let wanted = isGrey ? [90, 90, 90] : [200, 100, 50]
                for (value, wanted) in zip(pixel, wanted) {
                    #expect(abs(Int(value) - wanted) < 12, "\(format) \(pixel)")
                }
            } else if format == .jpeg {
                #expect(read.pixel(12, 8)[0] < (isGrey ? 60 : 115), "blended into black")
            }
        }
    }

    @Test func optionsThatAFormatHasNotAreRefused() throws {
        let picture = try TestPicture.gradient(8, 8)
        let bad = [
            ImageEncoders.Vips(format: .jpeg, quality: 0), .init(format: .jpeg, quality: 101),
            .init(format: .webp, progressive: true), .init(format: .jpeg, effort: 1), .init(format: .webp, effort: 7),
            .init(format: .png, effort: 10), .init(format: .gif, effort: 0), .init(format: .jxl, effort: 2),
            .init(format: .jpeg, lossless: true), .init(format: .avif, lossless: true),
            .init(format: .png, maxBytes: 5000), .init(format: .jpeg, maxBytes: 0),
        ]
        for encoder in bad {
            #expect(encoder.validationError != nil && encoder.encode(picture) == nil)
        }
        let good = [
            ImageEncoders.Vips(format: .jpeg, quality: 1), .init(format: .jpeg, quality: 100),
            .init(format: .webp, effort: 6), .init(format: .png, effort: 9), .init(format: .gif, effort: 1),
        ]
        for encoder in good { #expect(encoder.validationError == nil && encoder.encode(picture) != nil) }
    }

    @Test func anImageWithAMaximumSizeHasALowerQuality() throws {
        let picture = try TestPicture.gradient(200, 150)
        let sizes = try [100, 20].map { quality in
            try #require(ImageEncoders.Vips(format: .jpeg, quality: quality).encode(picture)).count
        }
        #expect(sizes[1] < sizes[0])
        let limit = (sizes[0] + sizes[1]) / 2
        let encoder = ImageEncoders.Vips(format: .jpeg, quality: 100, maxBytes: limit)
        #expect(try #require(encoder.encode(picture)).count <= limit)
        #expect {
            try ImageEncoders.Vips(format: .jpeg, maxBytes: 10).encoded(picture)
        } throws: { error in
            (error as? ImageError).map { $0.code == .outputTooLarge && $0.message.hasPrefix("jpeg has ") } ?? false
        }
    }

    /// Every option that changes a byte changes the identifier.
    @Test func anIdentifierHoldsEverythingThatChangesAByte() {
        let encoders = [
            ImageEncoders.Vips(format: .jpeg), .init(format: .jpeg, quality: 81),
            .init(format: .jpeg, progressive: true), .init(format: .jpeg, maxBytes: 5000),
            .init(format: .jpeg, background: .black), .init(format: .png), .init(format: .png, progressive: true),
            .init(format: .png, effort: 9), .init(format: .webp), .init(format: .webp, lossless: true),
            .init(format: .webp, effort: 2), .init(format: .avif), .init(format: .gif), .init(format: .jxl),
        ]
        let names = Set(encoders.map(\.identifier) + [ImageEncoders.Default().identifier])
        #expect(names.count == encoders.count + 1)
        #expect(ImageEncoders.Default(quality: 3).identifier != ImageEncoders.Default().identifier)
        #expect(ImageEncoders.Vips(format: .png, quality: 3).identifier == ImageEncoders.Vips(format: .png).identifier)
        #expect(ImageEncoders.Vips(format: .webp, effort: 4).identifier == ImageEncoders.Vips(format: .webp).identifier)
    }

    @Test func progressiveLosslessAndEffortDoWhatTheySay() throws {
        try VipsRuntime.allow([.jxl])
        let source = try #require(ImageEncoders.Vips(format: .png).encode(TestPicture.gradient(200, 150)))
        func probe(_ data: Data) throws -> ImageProbe { try VipsEngine().probe(data, type: #require(AssetType(data))) }
        for format in [Rendition.Format.jpeg, .png] {
            #expect(try probe(render(Rendition(width: 200, format: format, progressive: true), source)).isProgressive)
            #expect(try !probe(render(Rendition(width: 200, format: format), source)).isProgressive)
        }
        let exact = try PixelReader(source)
        for format in [Rendition.Format.webp, .jxl] {
            let lossless = try render(Rendition(width: 200, format: format, lossless: true), source)
            #expect(try PixelReader(lossless).distance(to: exact) == 0)
            #expect(try lossless != render(Rendition(width: 200, format: format), source))
        }
        let sizes = try [0, 9].map { try render(Rendition(width: 200, format: .png, effort: $0), source).count }
        #expect(sizes[0] > sizes[1])
    }

    private static let copyright: UInt16 = 0x8298
    private static let artist: UInt16 = 0x013B

    /// `image(for:)` returns upright pixels and no metadata; bytes stay unchanged.
    @Test func imagesHaveNothingButPixels() async throws {
        let texts = [Self.copyright: "Ann Example", 0x010F: "Camera"]
        let source = TestEXIF.jpeg(try TestPicture.jpeg(64, 48), orientation: 6, texts: texts)
        let (pipeline, request) = (ImagePipeline(), ImageRequest(id: "a", data: { source }))
        let image = try await pipeline.image(for: request)
        #expect(image.size == PixelSize(width: 48, height: 64) && !image.vipsImage.hasProfile)
        let written = try #require(ImageEncoders.Vips(format: .jpeg).encode(image))
        #expect(try TestPicture.fields(of: written).filter { $0.hasPrefix("exif-") || $0 == "orientation" }.isEmpty)
        #expect(try await pipeline.data(for: request).data == source)
    }

    /// No format passes on metadata that was not asked for, not even libvips savers that ignore "strip".
    @Test(arguments: Rendition.Format.allCases) func metadataGo(_ format: Rendition.Format) throws {
        try VipsRuntime.allow([.jxl])
        let source = TestEXIF.jpeg(
            try TestPicture.jpeg(64, 48),
            texts: [Self.copyright: "Ann Example", Self.artist: "Ann", 0x010F: "Camera", 0x0110: "Secret"]
        )
        for keep in format.hasMetadata ? Rendition.KeptMetadata.allCases : [.none] {
            let rendition = Rendition(width: 32, format: format, keepMetadata: keep)
            for renditions in [[rendition], [rendition, Rendition(width: 8)]] {
                let engine = VipsEngine()
                let plan = RenderPlan(try engine.probe(source, type: .jpeg), renditions)
                let data = try engine.execute(plan, source, deadline: RenderDeadline(.now + .seconds(60)))[0].data
                #expect(data.range(of: Data("Secret".utf8)) == nil && data.range(of: Data("Camera".utf8)) == nil)
                #expect((data.range(of: Data("Ann Example".utf8)) != nil) == (keep == .copyright), "\(format) \(keep)")
                guard keep == .copyright else { continue }
                #expect(try TestPicture.field("exif-ifd0-Copyright", of: data)?.hasPrefix("Ann Example (") == true)
                #expect(try TestPicture.field("exif-ifd0-Artist", of: data)?.hasPrefix("Ann (") == true)
                #expect(try TestPicture.fields(of: data).isDisjoint(with: ["exif-ifd0-Make", "exif-ifd0-Model"]))
            }
        }
    }

    /// Fault: libvips cuts its fields at 255 bytes, and the text was lost without a word.
    @Test(arguments: Rendition.Format.allCases.filter(\.hasMetadata), [90, 130, 1000])
    func aLongCopyrightStays(_ format: Rendition.Format, _ length: Int) throws {
        try VipsRuntime.allow([.jxl])
        let text = "Ann (Example) " + String(repeating: "x", count: length)
        let source = TestEXIF.jpeg(try TestPicture.jpeg(64, 48), texts: [Self.copyright: text, Self.artist: "Ann"])
        let rendition = Rendition(width: 32, format: format, keepMetadata: .copyright)
        let engine = VipsEngine()
        let plan = RenderPlan(try engine.probe(source, type: .jpeg), [rendition])
        let data = try engine.execute(plan, source, deadline: RenderDeadline(.now + .seconds(60)))[0].data
        // Fault: the text was followed by a part of its repetition.
        #expect(data.range(of: Data(text.utf8) + [0]) != nil)
    }
}
