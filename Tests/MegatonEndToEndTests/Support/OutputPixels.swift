import Foundation
import MegatonPipeline

/// The decoded pixels of an image that the program has written.
struct OutputPixels {
    let width: Int
    let height: Int
    private let bands: Int
    private let bytes: [UInt8]

    /// - Throws: if the file cannot be read or decoded.
    init(contentsOf path: String) throws {
        let image = try ImageDecoders.Default().decode(Data(contentsOf: URL(fileURLWithPath: path))).image
        (width, height, bands) = (image.size.width, image.size.height, image.bands)
        bytes = [UInt8](image.pixels())
    }

    /// Red, green and blue without the transparency; those of a gray image are equal.
    func color(_ x: Int, _ y: Int) -> [Int] {
        let start = (y * width + x) * bands
        let channels = bytes[start..<start + bands].map { Int($0) }
        return bands < 3 ? [channels[0], channels[0], channels[0]] : Array(channels.prefix(3))
    }
}
