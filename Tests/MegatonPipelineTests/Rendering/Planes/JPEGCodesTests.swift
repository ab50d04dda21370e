import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The Huffman codes that are made for an image are those of libjpeg: its jpegtran, which makes them again, writes the
/// same bytes.
@Suite struct JPEGCodesTests {
    private static func expectCodesOfLibjpeg(
        _ image: PlanarImage,
        quality: Int,
        _ directory: TestDirectory
    ) async throws {
        let rendition = Rendition(width: image.size.width, quality: quality)
        let deadline = RenderDeadline(.now + .seconds(60))
        let data = try #require(JPEGPlanes.encode(image, rendition, deadline))
        let (ours, theirs) = (try directory.write(data, to: "ours.jpg"), directory.path + "/theirs.jpg")
        let status = try await InstalledTool("jpegtran").run(["-optimize", "-copy", "all", "-outfile", theirs, ours])
        #expect(status == 0)
        let other = try Data(contentsOf: URL(fileURLWithPath: theirs))
        let text = "\(image.size) \(image.sampling) \(quality): \(data.count) and \(other.count) bytes"
        #expect(data == other, "\(text)")
    }

    /// Noise has nearly all symbols, and many bytes of its data look like markers; an even image has one block.
    @Test(arguments: [ChromaSampling.gray, .s444, .s422, .s420])
    func codesAreThoseOfLibjpeg(_ sampling: ChromaSampling) async throws {
        let directory = try TestDirectory()
        var random = SeededGenerator(seed: 5)
        for (width, height) in [(1, 1), (8, 8), (17, 9), (33, 64), (256, 171), (511, 300)] {
            let size = PixelSize(width: width, height: height)
            let noise = try PlanarImage(size, sampling) { _, _, _ in Int.random(in: 0...255, using: &random) }
            let even = try PlanarImage(size, sampling) { plane, _, _ in 40 * plane }
            let grain = try PlanarImage(size, sampling) { plane, x, y in
                let wave = sin(Double(x) / 9 + Double(plane)) + cos(Double(y) / 7)
                return 128 + Int(50 * wave) + Int.random(in: 0...9, using: &random)
            }
            for quality in [1, 50, 80, 100] {
                for image in [noise, even, grain] {
                    try await Self.expectCodesOfLibjpeg(image, quality: quality, directory)
                }
            }
        }
    }

    /// So many symbols that the best codes of the rarest would be longer than 16 bits.
    @Test func codesOfRareSymbolsAreShortened() async throws {
        var random = SeededGenerator(seed: 6)
        let image = try PlanarImage(PixelSize(width: 512, height: 512), .s444) { _, _, _ in
            Int.random(in: 127...129, using: &random)
        }
        try await Self.expectCodesOfLibjpeg(image, quality: 100, TestDirectory())
    }

    @Test(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"))
    func photographsHaveThem() async throws {
        let directory = try TestDirectory()
        for name in ["photos/p005.jpg", "photos/p013.jpg", "edge/sharp/centered_image.jpeg"] {
            let data = try Corpus.data(name)
            let probe = try #require(JPEGHeader(data)).probe
            let decoded = try #require(TurboJPEGCodec().decode(data, probe, shrink: 8))
            try #require(decoded.size.width * decoded.size.height <= JPEGPlanes.mostOptimized, "\(name)")
            for quality in [60, 80, 95] {
                try await Self.expectCodesOfLibjpeg(decoded, quality: quality, directory)
            }
        }
    }
}
