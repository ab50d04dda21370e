import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The images that watermarks may name, and their part in the keys of a pipeline.
@Suite(.timeLimit(.minutes(2))) struct WatermarksTests {
    private static func logo(_ red: UInt8, width: Int = 4) -> Data {
        TestImage.png(width: width, height: 4) { _, _ in (red, 0, 0, 255) }
    }

    private func watermarks(_ files: [String: Data]) throws -> Watermarks {
        let directory = try TestDirectory()
        for (name, data) in files { try directory.write(data, to: name) }
        return try withExtendedLifetime(directory) {
            try Watermarks(directory: URL(fileURLWithPath: directory.path, isDirectory: true))
        }
    }

    /// The code of the only file, beside which a usable one is read.
    private func code(_ name: String, _ data: Data, naming words: String) throws -> ImageError.Code? {
        let marks = try watermarks([name: data, "good.png": Self.logo(7)])
        #expect(marks.names == ["good.png"])
        let error = marks.unusable[name]
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
        return error?.code
    }

    @Test func aDirectoryIsRead() throws {
        let marks = try watermarks([
            "b.png": Self.logo(9), "a.png": Self.logo(8), ".hidden": Data(), "sub/c.png": Data(),
        ])
        #expect(marks.names == ["a.png", "b.png"])
        #expect(try watermarks([:]).names.isEmpty)
    }

    /// Fault: a README in the directory ended each run, also those without watermarks.
    @Test func filesThatCannotBeUsedAreLeftOutWithTheirReason() throws {
        #expect(try code("README.md", Data("x".utf8), naming: "README.md") == .unsupportedFormat)
        #expect(try code("a.png", Self.logo(1).prefix(60), naming: "a.png") == .corruptImage)
        #expect(try code("a b.png", Self.logo(1), naming: "a b.png") == .forbidden)
        #expect(try code("a.png", Data(count: 8 << 20 + 1), naming: "8 MiB") == .dataTooLarge)
        var rendition = Rendition(width: 5)
        rendition.watermark = .init(.image("a.png"))
        let marks = try watermarks(["a.png": Data("x".utf8)])
        let missing = #expect(throws: ImageError.self) { try Watermarks.resolve(rendition, in: marks) }
        #expect(missing?.code == .watermarkMissing && missing?.message.contains("a.png") == true)
    }

    @Test func aDirectoryThatCannotBeReadIsAnError() throws {
        let many = (0...64).map { ("\($0).png", Self.logo(1)) }
        let error = #expect(throws: ImageError.self) { try watermarks(Dictionary(uniqueKeysWithValues: many)) }
        #expect(error?.code == .dataTooLarge && error?.message.contains("65 files") == true)
        let missing = URL(fileURLWithPath: "/nonexistent/marks")
        #expect(throws: ImageError(.notFound, "")) { try Watermarks(directory: missing) }
    }

    @Test func aLargeImageIsScaledDown() throws {
        let marks = try watermarks(["wide.png": Self.logo(200, width: 3000)])
        var rendition = Rendition(width: 5)
        rendition.watermark = .init(.image("wide.png"))
        #expect(try Watermarks.resolve(rendition, in: marks).watermark?.overlay?.size.width == 2048)
    }

    @Test func aChangedFileIsAnotherRendition() async throws {
        let source = TestImage.quarters(width: 32, height: 32)
        var rendition = Rendition(width: 32, format: .png)
        rendition.watermark = .init(.image("logo.png"), position: .northWest)
        let cache = MemoryDataCache()
        for (red, wanted) in [(UInt8(200), RenditionResponse.Source.render), (200, .cache), (100, .render)] {
            let marks = try watermarks(["logo.png": Self.logo(red)])
            let pipeline = ImagePipeline {
                $0.dataCache = cache
                $0.watermarks = marks
            }
            let request = ImageRequest(id: "a", data: { source })
            let response = try await pipeline.renditions([rendition], for: request)[0]
            #expect(response.source == wanted && response.rendition == rendition)
            #expect(try PixelReader(response.data).pixel(1, 1) == [red, 0, 0, 255])
        }
        let without = ImagePipeline { $0.dataCache = cache }
        do {
            _ = try await without.renditions([rendition], for: ImageRequest(id: "a", data: { source }))
            Issue.record("a watermark that is not configured was drawn")
        } catch {
            #expect(error.code == .watermarkMissing && error.message.contains("\"logo.png\""))
        }
    }
}
