import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// A header that would keep libvips busy for longer than a render may take, or would take gibibytes, is refused before
/// libvips opens it.
@Suite(.timeLimit(.minutes(2))) struct HeaderBoundsTests {
    private func code(_ data: Data, _ engine: any RenderEngine = VipsEngine()) async -> ImagePipeline.Error.Code? {
        let renderer = Self.renderer(engine)
        return await TestPipeline.code { try await renderer.render([Rendition(width: 2)], from: data, context: "a") }
    }

    private static func renderer(_ engine: any RenderEngine) -> Renderer {
        Renderer(
            engine: engine,
            limits: RenderLimits(),
            types: AssetType.supported,
            threads: ThreadPool(name: "test", count: 1, onThreadExit: VipsRuntime.endThread)
        )
    }

    private func little(_ number: Int, _ count: Int) -> Data {
        Data((0..<count).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) })
    }

    // MARK: - JPEG

    /// A JPEG with `count` empty segments before its own.
    private func jpeg(_ count: Int, _ segment: [UInt8]) throws -> Data {
        let image = try TestPicture.plain(8, 8, [200, 100, 50])
        let picture = try #require(ImageEncoders.Vips(format: .jpeg).encode(image))
        return picture.prefix(2) + Data((0..<count).flatMap { _ in segment }) + picture.dropFirst(2)
    }

    /// Fault: twelve million of them kept libjpeg busy for more than 25 seconds.
    @Test(arguments: [[0xFF, 0xE1, 0, 2], [0xFF, 0xFE, 0, 2], [0xFF, 0xFF, 0xE5, 0, 2, 7]])
    func aJPEGHasSoManySegments(_ segment: [UInt8]) async throws {
        #expect(await code(try jpeg(HeaderBounds.parts + 1, segment)) == .headerTooLarge)
        if segment.count == 4 { #expect(await code(try jpeg(HeaderBounds.parts - 100, segment)) == nil) }
    }

    /// Fault: a hundred thousand segments between two scans of a progressive JPEG took libjpeg 17 seconds.
    @Test func segmentsBetweenScansAreCountedToo() {
        let begin = Data([0xFF, 0xD8, 0xFF, 0xDA, 0, 2, 1, 2, 0xFF, 0, 3])
        let segments = Data((0...HeaderBounds.parts).flatMap { _ in [0xFF, 0xE1, 0, 2] as [UInt8] })
        #expect(TestPipeline.thrownCode { try HeaderBounds.check(begin + segments, .jpeg) } == .headerTooLarge)
    }

    /// Restart markers, 0xFF bytes in the data and bytes after the end do not count as segments.
    @Test func onlySegmentsAreCounted() throws {
        let begin = Data([0xFF, 0xD8, 0xFF, 0xDA, 0, 2])
        let data = Data((0...HeaderBounds.parts).flatMap { _ in [0xFF, 0, 0xFF, 0xD3, 0xFF, 0xFF, 0, 9] as [UInt8] })
        let segments = Data((0...HeaderBounds.parts).flatMap { _ in [0xFF, 0xE1, 0, 2] as [UInt8] })
        try HeaderBounds.check(begin + data + Data([0xFF, 0xD9]) + segments, .jpeg)
    }

    @Test func previewsHaveTheSameBounds() throws {
        let data = try jpeg(HeaderBounds.parts + 1, [0xFF, 0xE1, 0, 2])
        #expect(VipsEngine().embeddedThumbnail(data) == nil)
        let code = TestPipeline.thrownCode {
            _ = try VipsEngine().planPartly(data, RenderLimits(), as: nil)
        }
        #expect(code == .headerTooLarge)
    }

    // MARK: - WebP

    private func webp(_ frames: Int) throws -> Data {
        let encoder = ImageEncoders.Vips(format: .webp, lossless: true)
        let picture = try #require(encoder.encode(try TestPicture.plain(4, 4, [200, 100, 50])))
        let start = try #require(picture.range(of: Data("VP8L".utf8))).lowerBound
        let length = Int(picture[start + 4]) | Int(picture[start + 5]) << 8
        let image = picture[start..<(start + 8 + length + length % 2)]
        let body = Data(count: 6) + little(3, 3) + little(3, 3) + little(10, 3) + Data([0]) + image
        let frame = Data("ANMF".utf8) + little(body.count, 4) + body
        var chunks = Data("WEBPVP8X".utf8) + little(10, 4) + Data([0x12, 0, 0, 0]) + little(3, 3) + little(3, 3)
        chunks += Data("ANIM".utf8) + little(6, 4) + Data(count: 6)
        for _ in 0..<frames { chunks += frame }
        return Data("RIFF".utf8) + little(chunks.count, 4) + chunks
    }

    /// Fault: libwebp searches for each frame from the first one on: 200,000 frames took more than 25 seconds.
    @Test func aWebPHasSoManyFrames() async throws {
        #expect(await code(try webp(HeaderBounds.parts - 1)) == .headerTooLarge, "two chunks come before them")
        #expect(await code(try webp(300)) == nil)
    }

    // MARK: - PNG

    private func chunk(_ name: String, _ data: Data) -> Data {
        Data(little(data.count, 4).reversed()) + Data(name.utf8) + data + Data(count: 4)
    }

    /// Fault: 7 MB of text chunks inflated to more than a GiB, before any memory was admitted.
    @Test func theTextsOfAPNGGrowToSoMuch() async {
        let signature = TestPipeline.png.prefix(8)
        let text = chunk("zTXt", Data("a\0\0".utf8) + Data(count: 8000))
        func png(_ count: Int, _ text: Data) -> Data { signature + Data((0..<count).flatMap { _ in text }) }
        func code(_ data: Data) -> ImagePipeline.Error.Code? {
            TestPipeline.thrownCode { try HeaderBounds.check(data, .png) }
        }
        #expect(code(png(16, text)) == nil && code(png(17, text)) == .headerTooLarge)
        let compressed = chunk("iTXt", Data("key\0\u{1}\0\0\0".utf8) + Data(count: 8000))
        #expect(code(png(16, compressed)) == nil && code(png(17, compressed)) == .headerTooLarge)
        let plain = chunk("iTXt", Data("key\0\0\0\0\0".utf8) + Data(count: 8000))
        #expect(code(png(100, plain)) == nil)
        #expect(await self.code(png(17, text) + TestPipeline.png.dropFirst(8)) == .headerTooLarge)
    }

    // MARK: - Any bytes

    /// Truncated headers and nonsense lengths are left to libvips to report.
    @Test(arguments: [AssetType.jpeg, .webp, .png, .gif, .avif]) func nothingIsReadBeyondTheEnd(_ type: AssetType)
        throws
    {
        var generator = SeededGenerator(seed: 7)
        for length in 0..<600 {
            try HeaderBounds.check(Data((0..<length).map { _ in UInt8.random(in: 0...255, using: &generator) }), type)
            try HeaderBounds.check(Data(repeating: 0xFF, count: length), type)
            try HeaderBounds.check(TestPipeline.png.prefix(length), type)
        }
    }

    // MARK: - Time

    /// An engine that reads a header until it is released.
    private struct Crawling: RenderEngine {
        let begun = Promise<Void>()
        let end = DispatchSemaphore(value: 0)

        func probe(_ data: Data, type: AssetType) throws(ImagePipeline.Error) -> ImageProbe {
            begun.resolve(())
            end.wait()
            throw ImagePipeline.Error(.corruptImage, "…")
        }

        func render(
            _ pass: RenderPlan.Pass,
            of plan: RenderPlan,
            from data: Data,
            deadline: RenderDeadline
        ) throws(ImagePipeline.Error) -> [EncodedImage] { [] }

        func image(
            _ plan: RenderPlan,
            _ data: Data,
            deadline: RenderDeadline
        ) throws(ImagePipeline.Error) -> PlatformImage {
            throw ImagePipeline.Error(.corruptImage, "…")
        }
    }

    /// Headers that are not bounded here are caught by the watchdog, which also covers probing.
    @Test func aHeaderThatTakesLongIsARenderUnderWay() async throws {
        let engine = Crawling()
        let renderer = Self.renderer(engine)
        async let ending = TestPipeline.code {
            try await renderer.render([Rendition(width: 2)], from: TestPipeline.png, context: "a")
        }
        await engine.begun.value
        #expect(renderer.longestRunning != nil)
        engine.end.signal()
        #expect(await ending == .corruptImage)
        #expect(renderer.longestRunning == nil)
    }
}
