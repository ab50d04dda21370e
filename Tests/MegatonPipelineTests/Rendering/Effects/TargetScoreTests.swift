import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The quality that has a `targetScore`, and the score itself.
@Suite(.timeLimit(.minutes(2))) struct TargetScoreTests {
    private static func picture(_ x: Int, _ y: Int) -> [Int] { [(x * 3 + y) % 256, x * y / 8 % 256, (x ^ y) & 255] }

    /// The picture with noise of up to four steps.
    private static func noisy(_ x: Int, _ y: Int) -> [Int] {
        let (samples, noise) = (picture(x, y), (x * 31 + y * 17) % 9 - 4)
        return [samples[0] + noise, samples[1] - noise, samples[2] + noise].map { min(max($0, 0), 255) }
    }

    /// The picture with sixteen steps in each channel.
    private static func coarse(_ x: Int, _ y: Int) -> [Int] { picture(x, y).map { $0 / 16 * 16 } }

    private func samples(_ width: Int, _ height: Int, _ pixel: (Int, Int) -> [Int]) -> [UInt8] {
        (0..<width * height).flatMap { pixel($0 % width, $0 / width).map { UInt8($0) } }
    }

    /// The scores of the package ssimulacra2 0.3.0 of PyPI for the same pixels.
    @Test func scoresAreThoseOfThePublishedProgram() throws {
        for (width, height, ofNoise, ofSteps) in [(100, 75, 58.0724, 39.4006), (16, 9, 96.0318, 95.1807)] {
            let score = try #require(SSIMULACRA2(samples(width, height, Self.picture), width: width))
            #expect(score.score(of: samples(width, height, Self.picture)) == 100)
            let noise = try #require(score.score(of: samples(width, height, Self.noisy)))
            let steps = try #require(score.score(of: samples(width, height, Self.coarse)))
            #expect(abs(noise - ofNoise) < 0.05, "\(width) x \(height): \(noise)")
            #expect(abs(steps - ofSteps) < 0.05, "\(width) x \(height): \(steps)")
        }
    }

    @Test func anImageOfAnotherSizeOrWithoutAScaleHasNoScore() throws {
        let score = try #require(SSIMULACRA2(samples(16, 9, Self.picture), width: 16))
        #expect(score.score(of: samples(9, 16, Self.picture).dropLast(3).map { $0 }) == nil)
        #expect(SSIMULACRA2([], width: 16) == nil && SSIMULACRA2([1, 2, 3], width: 0) == nil)
        #expect(SSIMULACRA2(samples(16, 7, Self.picture), width: 16) == nil, "less than eight rows")
    }

    /// Searches with an encoder whose images have a hundred bytes and the score of their quality.
    private func search(
        _ quality: Int,
        _ target: Double,
        limit: Int? = nil
    ) throws -> (qualities: [Int], found: TargetScore.Scored) {
        var rendition = Rendition(width: 5, quality: quality)
        rendition.maxBytes = limit
        var qualities: [Int] = []
        let found = try TargetScore.find(rendition, target: target, tooLarge: { $0 as any Error }) { rendition in
            qualities.append(rendition.quality)
            return Data(count: rendition.quality * 100)
        } score: { data in
            Double(data.count) / 100
        }
        return (qualities, found)
    }

    @Test(arguments: [
        (80, 70.0, nil, 70), (80, 80, nil, 80), (80, 95, nil, 95), (80, 20, nil, 20), (30, 90.5, nil, 91),
        (80, 100, nil, 95), (80, 10, nil, 20), (100, 99, nil, 99), (15, 10, nil, 15),
        // The bytes have precedence.
        (80, 90, 6000, 60), (80, 40, 6000, 40),
    ])
    func theLowestQualityWithTheScoreIsFound(_ quality: Int, _ target: Double, _ limit: Int?, _ wanted: Int) throws {
        let (qualities, found) = try search(quality, target, limit: limit)
        #expect(found.data.count == wanted * 100 && found.score == Double(wanted), "\(qualities)")
        #expect(qualities.first == quality && qualities.count <= TargetScore.maximumEncodings)
        #expect(Set(qualities).count == qualities.count)
    }

    @Test func noQualityWithinTheBytesIsAnError() {
        let error = #expect(throws: ImageError.self) { try search(80, 70, limit: 1999) }
        #expect(error?.code == .outputTooLarge && error?.message.contains("maxBytes is 1999") == true)
    }

    @Test(arguments: [Rendition.Format.jpeg, .webp, .avif])
    func anImageHasTheScore(_ format: Rendition.Format) throws {
        let data = TestImage.png(width: 200, height: 150) { x, y in
            let samples = [abs(x % 64 - 32) * 7, abs(y % 48 - 24) * 9, abs((x + y) % 80 - 40) * 6]
            return (UInt8(samples[0]), UInt8(samples[1]), UInt8(samples[2]), 255)
        }
        var images: [EncodedImage] = []
        for target in [30.0, 80] {
            var rendition = Rendition(width: 200, format: format)
            rendition.targetScore = target
            images.append(try EffectFixture.render(rendition, data))
        }
        let scores = images.compactMap(\.score)
        #expect(scores.count == 2 && scores[0] >= 30 && scores[1] > scores[0], "\(scores)")
        #expect(images[0].data.count < images[1].data.count && images[0].maker == .libvips)
        var plain = Rendition(width: 200, format: format)
        #expect(try EffectFixture.render(plain, data).score == nil)
        // Too small for a scale of the score.
        plain = Rendition(width: 9, format: format)
        plain.targetScore = 70
        #expect(try EffectFixture.render(plain, data).score == nil)
    }

    /// A gray image, and one with transparent pixels, which a JPEG has on its background.
    @Test func grayAndTransparentImagesHaveAScore() throws {
        for alpha in [UInt8(255), 90] {
            let data = TestImage.png(width: 64, height: 48) { x, y in
                let gray = UInt8((x * 5 + y * 3) % 256)
                return (gray, gray, gray, alpha)
            }
            for format in [Rendition.Format.jpeg, .webp] {
                var rendition = Rendition(width: 64, format: format)
                (rendition.targetScore, rendition.grayscale) = (60, alpha == 255)
                #expect(try EffectFixture.render(rendition, data).score ?? 0 >= 60, "\(format), alpha \(alpha)")
            }
        }
    }

    /// Fault: the memory of a comparison was counted for each pixel of the image, so that a photograph of 12 megapixels
    /// was too costly for each worker.
    @Test func theCostOfALargeImageHasThatOfTheSampleOnce() throws {
        let probe = try VipsEngine().probe(TestImage.quarters(width: 2000, height: 1500), type: .png)
        var rendition = Rendition(width: 2000)
        let plain = RenderPlan(probe, [rendition]).cost.bytes
        rendition.targetScore = 70
        let scored = RenderPlan(probe, [rendition]).cost.bytes
        #expect(scored - plain > 512 * 512 * 132 && scored - plain < 2000 * 1500 * 32 + 512 * 512 * 132)
    }

    @Test func aCachedRenditionKeepsItsScore() async throws {
        let source = TestImage.quarters(width: 64, height: 64)
        var rendition = Rendition(width: 64)
        rendition.targetScore = 50
        let cache = MemoryDataCache()
        var scores: [Double?] = []
        for wanted in [RenditionResponse.Source.render, .cache] {
            let pipeline = ImagePipeline { $0.dataCache = cache }
            let request = ImageRequest(id: "a", data: { source })
            let response = try await pipeline.renditions([rendition], for: request)[0]
            #expect(response.source == wanted)
            scores.append(response.score)
        }
        #expect(scores[0] != nil && scores[0] == scores[1])
    }
}
