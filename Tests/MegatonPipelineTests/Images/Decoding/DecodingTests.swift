import Foundation
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Images from bytes.
@Suite(.timeLimit(.minutes(2))) struct DecodingTests {
    @Test(arguments: 1...4) func pixelsGoInAndComeOut(_ bands: Int) throws {
        let pixels = Data((0..<(7 * 5 * bands)).map { UInt8($0 * 3 % 256) })
        let image = try #require(PlatformImage(width: 7, height: 5, bands: bands, pixels: pixels))
        #expect(image.pixels() == pixels)
        #expect(image.size == PixelSize(width: 7, height: 5) && image.bands == bands)
        #expect(image.hasAlpha == (bands % 2 == 0) && image.byteCount == pixels.count)
    }

    @Test(arguments: [
        (0, 1, 1, 0), (1, 0, 1, 0), (-1, -1, 1, 1), (2, 2, 3, 11), (2, 2, 3, 13), (1, 1, 5, 5), (1, 1, 0, 0),
        (Int.max, 2, 1, 4), (1 << 20, 1 << 20, 1, 8),
    ])
    func pixelsThatDoNotFitTheirSizeAreNoImage(_ width: Int, _ height: Int, _ bands: Int, _ count: Int) {
        #expect(PlatformImage(width: width, height: height, bands: bands, pixels: Data(count: count)) == nil)
    }

    @Test func anImageIsReadByManyAtATime() async throws {
        let image = try TestPicture.gradient(300, 200)
        let sums = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<8 { group.addTask { image.pixels().reduce(0) { $0 + Int($1) } } }
            return await group.reduce(into: Set<Int>()) { $0.insert($1) }
        }
        #expect(sums.count == 1)
    }

    @Test func decodesToPixels() throws {
        let container = try ImageDecoders.Default().decode(TestImage.quarters(width: 40, height: 20))
        #expect(container.type == .png && !container.isPreview && container.data == nil)
        #expect(container.image.size == PixelSize(width: 40, height: 20) && container.image.isAsDecoded)
        let pixels = Array(container.image.pixels())
        #expect(Array(pixels[0..<4]) == [255, 0, 0, 255])
        #expect(Array(pixels[(39 * 4)...][..<(39 * 4 + 4)]) == [0, 255, 0, 255])
    }

    /// Rows of a file are read from first to last, and a rotated image needs them in another order.
    @Test(arguments: 1...8) func aRotatedImageIsDecodedUpright(_ orientation: Int) throws {
        let data = TestEXIF.jpeg(try TestPicture.jpeg(1600, 1200), orientation: UInt16(orientation))
        let image = try ImageDecoders.Default().decode(data).image
        let size = orientation < 5 ? PixelSize(width: 1600, height: 1200) : PixelSize(width: 1200, height: 1600)
        #expect(image.size == size)
        // Red grows to the right as stored, green downwards: the darkest corner is the stored top left one.
        let pixels = image.pixels()
        let (width, height) = (size.width, size.height)
        let corners = [(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)]
        let dark = corners.map { x, y in Int(pixels[(y * width + x) * 3]) + Int(pixels[(y * width + x) * 3 + 1]) }
        let expected = [1: 0, 2: 1, 3: 2, 4: 3, 5: 0, 6: 1, 7: 2, 8: 3][orientation]
        #expect(dark.firstIndex(of: dark.min() ?? 0) == expected, "\(dark)")
    }

    @Test(arguments: [
        (ImageRequest.ThumbnailOptions(maxPixelSize: 100), 100, 50),
        (.init(size: PixelSize(width: 100, height: 100), contentMode: .aspectFill), 200, 100),
        (.init(size: PixelSize(width: 100, height: 100), contentMode: .aspectFit), 100, 50),
        (.init(maxPixelSize: 9000), 800, 400), (.init(maxPixelSize: 0), 1, 1),
    ])
    func thumbnailsKeepTheirAspectAndAreNeverEnlarged(
        _ options: ImageRequest.ThumbnailOptions,
        _ width: Int,
        _ height: Int
    ) throws {
        for format in [Rendition.Format.jpeg, .png, .webp] {
            let encoder = ImageEncoders.Vips(format: format, effort: format == .jpeg ? nil : 1)
            let data = try #require(encoder.encode(TestPicture.gradient(800, 400)))
            let container = try ImageDecoders.Default(thumbnail: options).decode(data)
            #expect(container.image.size == PixelSize(width: width, height: height))
            #expect(container.image.isAsDecoded == (width == 800))
        }
    }

    /// A JPEG whose second half is missing: with a shrink-on-load factor of 8 the decoder reports it as well.
    @Test func damageIsAnErrorAlsoInAThumbnail() throws {
        let data = try TestPicture.jpeg(1600, 1600)
        for thumbnail in [nil, ImageRequest.ThumbnailOptions(maxPixelSize: 50)] {
            let decoder = ImageDecoders.Default(thumbnail: thumbnail)
            #expect(TestPipeline.thrownCode { _ = try decoder.decode(data.prefix(data.count / 2)) } == .corruptImage)
        }
    }

    @Test func saysWhatItDoesNotDecode() throws {
        let decoder = ImageDecoders.Default()
        #expect(TestPipeline.thrownCode { _ = try decoder.decode(Data()) } == .dataIsEmpty)
        #expect(TestPipeline.thrownCode { _ = try decoder.decode(Data("hello".utf8)) } == .unsupportedFormat)
        #expect(TestPipeline.thrownCode { _ = try decoder.decode(Data("%PDF-1.7".utf8)) } == .unsupportedFormat)
        let few = ImageDecoders.Default(types: [.jpeg])
        #expect(
            TestPipeline.thrownCode { _ = try few.decode(TestImage.quarters(width: 2, height: 2)) }
                == .unsupportedFormat
        )
        #expect(
            TestPipeline.thrownCode { _ = try decoder.decode(TestImage.bomb(width: 10_000, height: 5001)) }
                == .imageTooLarge
        )
        #expect(
            TestPipeline.thrownCode { _ = try decoder.decode(TestImage.bomb(width: 16_385, height: 1)) } == .sideTooLong
        )
    }

    @Test func keepsTheBytesOfAnimations() throws {
        for format in [Rendition.Format.gif, .webp] {
            let data = try TestPicture.animation(20, 10, frames: 3, as: format)
            let container = try ImageDecoders.Default().decode(data)
            #expect(container.data == data && container.image.size == PixelSize(width: 20, height: 10))
            let small = try ImageDecoders.Default(thumbnail: .init(maxPixelSize: 5)).decode(data)
            #expect(small.data == nil && small.image.size == PixelSize(width: 5, height: 3))
        }
    }

    @Test func decodesOnARenderThreadWithinTheBudget() async throws {
        let limits = RenderLimits()
        let data = TestImage.quarters(width: 64, height: 64)
        func renderer(_ bytes: Int) -> Renderer {
            Renderer(
                engine: VipsEngine(),
                limits: limits,
                types: AssetType.supported,
                threads: ThreadPool(name: "test", count: 1, onThreadExit: VipsRuntime.endThread),
                budget: MemoryBudget(bytes: bytes)
            )
        }
        let cost = try ImageDecoders.Default().plan(data).cost.bytes
        let enough = renderer(cost)
        let image = try await enough.decode(data, with: ImageDecoders.Default(), context: "a").image
        #expect(image.size == PixelSize(width: 64, height: 64))
        await #expect { () async throws in
            _ = try await renderer(cost - 1).decode(data, with: ImageDecoders.Default(), context: "a.png")
        } throws: { error in
            let error = error as? ImagePipeline.Error
            return error?.code == .tooCostly && error?.message.hasPrefix("a.png: ") == true
        }
        struct Own: ImageDecoding {
            struct Failure: Error {}
            func decode(_ data: Data) throws -> ImageContainer { throw Failure() }
        }
        await #expect { () async throws in
            _ = try await enough.decode(data, with: Own(), context: "a.png")
        } throws: { ($0 as? ImagePipeline.Error)?.code == .corruptImage }
    }

    @Test func emptyDecodesNothingAndPassesTheBytesOn() throws {
        let svg = Data("<svg xmlns=\"\"/>".utf8)
        let container = try ImageDecoders.Empty().decode(svg)
        #expect(container.data == svg && container.type == .svg && !container.isPreview)
        #expect(container.image.size == PixelSize(width: 1, height: 1) && container.image.pixels() == Data(count: 4))
        #expect(try ImageDecoders.Empty(assetType: .pdf).decode(svg).type == .pdf)
        #expect(ImageDecoders.Empty().decodePartiallyDownloadedData(svg) == nil)
        let preview = ImageDecoders.Empty(isProgressive: true).decodePartiallyDownloadedData(svg)
        #expect(preview?.isPreview == true && preview?.data == svg)
        #expect(!ImageDecoders.Empty().isAsynchronous && ImageDecoders.Default().isAsynchronous)
    }
}
