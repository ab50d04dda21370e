import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The quality that fits into `maxBytes`.
@Suite(.timeLimit(.minutes(2))) struct EncodedSizeTests {
    /// Searches with an encoder whose images have a hundred bytes for each step of quality.
    private func search(_ quality: Int, _ limit: Int) throws -> (qualities: [Int], bytes: Int) {
        var rendition = Rendition(width: 5, quality: quality)
        rendition.maxBytes = limit
        var qualities: [Int] = []
        let data = try EncodedSize.fit(rendition, tooLarge: { $0 as any Error }) { rendition in
            qualities.append(rendition.quality)
            return Data(count: rendition.quality * 100)
        }
        return (qualities, data.count)
    }

    @Test(arguments: [
        (80, 8000, [80], 8000), (80, 7999, [80, 50, 65, 72, 76], 7600), (80, 5000, [80, 50, 65, 57, 53], 5000),
        (80, 2500, [80, 50, 35, 27, 20], 2000), (21, 2000, [21, 20], 2000), (100, 9800, [100, 60, 80, 90, 95], 9500),
        (10, 1000, [10], 1000), (24, 2250, [24, 22, 23], 2200),
    ])
    func bisectionFindsAQualityThatFits(_ quality: Int, _ limit: Int, _ wanted: [Int], _ bytes: Int) throws {
        let found = try search(quality, limit)
        #expect(found.qualities == wanted && found.bytes == bytes, "\(found)")
        #expect(found.qualities.count <= EncodedSize.maximumEncodings)
    }

    @Test(arguments: [(80, 1999, 2000), (21, 10, 2000), (10, 999, 1000), (20, 1, 2000)])
    func theErrorNamesTheSizes(_ quality: Int, _ limit: Int, _ smallest: Int) {
        let error = #expect(throws: ImageError.self) { try search(quality, limit) }
        #expect(error?.code == .outputTooLarge && error?.isRetryable == false && error?.stage == .encode)
        for size in [quality * 100, smallest, limit] {
            #expect(error?.message.contains("\(size)") == true, "\(error?.message ?? "")")
        }
    }

    @Test(arguments: [Rendition.Format.jpeg, .webp, .avif]) func anImageFits(_ format: Rendition.Format) throws {
        let data = try TestSampling.s444.jpeg(240, 180) { x, y in
            (UInt8((x * 7 + y * 13) % 256), UInt8((x * y) % 256), UInt8((x ^ y) & 255))
        }
        let full = try EffectFixture.render(Rendition(width: 240, format: format, quality: 90), data)
        var rendition = Rendition(width: 240, format: format, quality: 90)
        rendition.maxBytes = full.data.count * 2 / 3
        let fitted = try EffectFixture.render(rendition, data)
        #expect(fitted.data.count <= full.data.count * 2 / 3 && fitted.size == full.size)
        rendition.maxBytes = 50
        let error = #expect(throws: ImageError.self) { try EffectFixture.render(rendition, data) }
        #expect(error?.code == .outputTooLarge && error?.message.contains("50") == true)
        // Fault: an image that fits was made by another engine, whose tables take more bytes.
        rendition.maxBytes = 1 << 30
        #expect(try EffectFixture.render(rendition, data).data == full.data)
    }
}
