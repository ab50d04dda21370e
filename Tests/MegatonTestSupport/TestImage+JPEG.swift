public import Foundation
import MegatonPipeline

extension TestImage {
    /// A JPEG could not be made.
    public struct CannotEncode: Error {}

    /// A baseline JPEG of 4:2:0, of one colour.
    public static func jpeg(width: Int, height: Int) throws -> Data {
        let pixels = Data(repeating: 90, count: width * height * 3)
        guard let picture = PlatformImage(width: width, height: height, bands: 3, pixels: pixels),
            let jpeg = ImageEncoders.Vips(format: .jpeg).encode(picture)
        else { throw CannotEncode() }
        return jpeg
    }
}
