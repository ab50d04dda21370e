import Foundation
import MegatonPipeline

/// Reads PPM: three lines of text, then the pixels.
struct PPMDecoder: ImageDecoding {
    func decode(_ data: Data) throws -> ImageContainer {
        let parts = data.split(separator: UInt8(ascii: "\n"), maxSplits: 3, omittingEmptySubsequences: false)
        let size = parts.count == 4 ? String(decoding: parts[1], as: UTF8.self).split(separator: " ") : []
        guard size.count == 2, let width = Int(size[0]), let height = Int(size[1]), max(width, height) <= 4096,
            let image = PlatformImage(width: width, height: height, bands: 3, pixels: parts[3])
        else { throw ImagePipeline.Error(.corruptImage, "this is no PPM, or too large a one.") }
        return ImageContainer(image: image)
    }
}
