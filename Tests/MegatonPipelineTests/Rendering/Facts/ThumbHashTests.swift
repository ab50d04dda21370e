import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The expected hashes were computed in double precision, term by term, by a transcription of the published algorithm
/// (https://evanw.github.io/thumbhash/) into Python, for images of the same formulas. They have no symmetry: a term
/// that is exactly zero lies between two steps of a hash, and the published code then rounds by chance.
@Suite struct ThumbHashTests {
    private static func image(_ width: Int, _ height: Int, _ pixel: (Int, Int) -> [Int]) throws -> SmallImage {
        var pixels: [UInt8] = []
        for y in 0..<height {
            for x in 0..<width { pixels += pixel(x, y).map { UInt8($0) } }
        }
        return try #require(SmallImage(width: width, height: height, pixels: pixels))
    }

    private static func hash(_ image: SmallImage) -> String { ThumbHash.encode(image).hexDigits }

    @Test func aPortraitHasThePublishedHash() throws {
        let image = try Self.image(20, 60) { x, y in [(x * 7 + y * 3) % 256, x * x % 256, y * 4 % 256, 255] }
        #expect(Self.hash(image) == "9b870e520a43606879778787536fd60b32")
    }

    @Test func aLandscapeHasThePublishedHash() throws {
        let image = try Self.image(36, 20) { x, y in
            [(x * x + 3 * y) % 256, (x * 5 + y * y) % 256, x * y % 256, 255]
        }
        #expect(Self.hash(image) == "dbe8091c863064985388787479a5a86f6b90ed")
    }

    @Test func aSquareHasThePublishedHash() throws {
        let image = try Self.image(48, 48) { x, y in
            [(x * x / 9 + y) % 256, (x + y * y / 7) % 256, x * y / 11 % 256, 255]
        }
        #expect(Self.hash(image) == "54090e1f128078787178788688987767878867a830807c0b")
    }

    @Test func alphaIsInTheHash() throws {
        let image = try Self.image(24, 18) { x, y in
            [(x * 9 + y) % 256, y * 13 % 256, (x * y + 40) % 256, min(255, (x * x + y * 7) % 300)]
        }
        let hash = ThumbHash.encode(image)
        #expect(hash.hexDigits == "1e1886148c188396908ba767485fda917f07534e7479787708")
        #expect(hash.count == ThumbHash.maximumSize)
    }

    /// The constants of the hash are the color; its scales are zero.
    @Test func oneColorHasNoTerms() throws {
        let hash = ThumbHash.encode(try Self.image(16, 16) { _, _ in [90, 90, 90, 255] })
        // Luminance 90 / 255 of 63; 31.5 of both color differences, rounded up; 7 terms of luminance.
        #expect(hash.prefix(5).elementsEqual([22, 8, 2, 7, 0]))
        #expect(hash.dropFirst(5).allSatisfy { $0 == 0 })
    }

    @Test func aTransparentImageHasAHash() throws {
        let hash = ThumbHash.encode(try Self.image(8, 8) { _, _ in [255, 0, 0, 0] })
        #expect(hash[2] & 128 == 128 && hash[5] == 0, "the flag is set, and alpha is zero")
    }
}
