import Foundation
import MegatonPipeline

/// Makes colors darker, and leaves alpha unchanged.
struct Darken: ImageProcessing {
    /// Divisor of each color, 1 to 255.
    let divisor: UInt8

    var identifier: String { "org.example/darken?divisor=\(divisor)" }

    func process(_ image: PlatformImage) -> PlatformImage? {
        let colors = image.hasAlpha ? image.bands - 1 : image.bands
        var pixels = image.pixels()
        for index in pixels.indices where index % image.bands < colors { pixels[index] /= divisor }
        return PlatformImage(width: image.size.width, height: image.size.height, bands: image.bands, pixels: pixels)
    }
}
