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
}
