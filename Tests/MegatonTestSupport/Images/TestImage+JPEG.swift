public import Foundation
import MegatonPipeline

extension TestImage {
    /// The JPEG could not be encoded.
    public struct CannotEncode: Error {}

    /// A baseline 4:2:0 JPEG of one color.
    public static func jpeg(width: Int, height: Int) throws -> Data {
        let pixels = Data(repeating: 90, count: width * height * 3)
        guard let picture = PlatformImage(width: width, height: height, bands: 3, pixels: pixels),
            let jpeg = ImageEncoders.Vips(format: .jpeg).encode(picture)
        else { throw CannotEncode() }
        return jpeg
    }

    /// A progressive 4:2:0 JPEG of gray noise, of which each pixel takes about a byte.
    public static func progressiveNoise(width: Int, height: Int) throws -> Data {
        var random = SeededGenerator(seed: 5)
        var pixels = Data(capacity: width * height * 3)
        for _ in 0..<(width * height) {
            let value = UInt8(truncatingIfNeeded: random.next() >> 56)
            for _ in 0..<3 { pixels.append(value) }
        }
        guard let picture = PlatformImage(width: width, height: height, bands: 3, pixels: pixels),
            let jpeg = ImageEncoders.Vips(format: .jpeg, quality: 90, progressive: true).encode(picture)
        else { throw CannotEncode() }
        return jpeg
    }
}
