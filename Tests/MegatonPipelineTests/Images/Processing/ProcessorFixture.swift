import Foundation
import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

/// Images with known pixels, and a way to run a processor and get its error.
enum ProcessorFixture {
    /// - Parameter pixel: one byte for each band.
    static func picture(
        _ width: Int,
        _ height: Int,
        bands: Int = 3,
        _ pixel: (_ x: Int, _ y: Int) -> [UInt8]
    ) throws -> PlatformImage {
        var pixels = Data(capacity: width * height * bands)
        for y in 0..<height {
            for x in 0..<width { pixels.append(contentsOf: pixel(x, y)) }
        }
        return try #require(PlatformImage(width: width, height: height, bands: bands, pixels: pixels))
    }

    static func plain(_ width: Int, _ height: Int, _ pixel: [UInt8]) throws -> PlatformImage {
        try picture(width, height, bands: pixel.count) { _, _ in pixel }
    }

    /// An image in which every pixel is its place: x, y, 0.
    static func map(_ width: Int, _ height: Int) throws -> PlatformImage {
        try picture(width, height) { x, y in [UInt8(x), UInt8(y), 0] }
    }

    /// A gradient for each number of bands; with alpha, its right half is half transparent.
    static func scene(_ width: Int, _ height: Int, bands: Int) throws -> PlatformImage {
        try picture(width, height, bands: bands) { x, y in
            let (red, green) = (UInt8(x * 255 / max(1, width - 1)), UInt8(y * 255 / max(1, height - 1)))
            let alpha: UInt8 = x * 2 < width ? 255 : 128
            return switch bands {
            case 1: [red]
            case 2: [red, alpha]
            case 3: [red, green, 90]
            default: [red, green, 90, alpha]
            }
        }
    }

    static func run(
        _ processor: any ImageProcessing,
        _ image: PlatformImage,
        _ bounds: ProcessingBounds = ProcessingBounds()
    ) throws -> PlatformImage {
        let container = ImageContainer(image: image)
        let request = ImageRequest(url: nil)
        return try processor.process(
            container,
            context: ImageProcessingContext(
                request: request,
                response: ImageResponse(container: container, request: request),
                isCompleted: true,
                bounds: bounds
            )
        ).image
    }

    /// The code of the error that a processor throws, or nil. Without a context it must return nil in the same cases.
    static func failure(_ processor: any ImageProcessing, _ image: PlatformImage) throws -> ImagePipeline.Error.Code? {
        do {
            _ = try run(processor, image)
            #expect(processor.process(image) != nil)
            return nil
        } catch let error as ImagePipeline.Error {
            #expect(processor.process(image) == nil)
            #expect(!error.message.isEmpty)
            return error.code
        }
    }
}

extension PlatformImage {
    func pixel(_ x: Int, _ y: Int) -> [UInt8] {
        let start = (y * size.width + x) * bands
        return [UInt8](pixels()[start..<start + bands])
    }
}

/// Whether two pixels differ by at most `most` in each band.
func near(_ one: [UInt8], _ other: [UInt8], by most: Int = 2) -> Bool {
    one.count == other.count && zip(one, other).allSatisfy { abs(Int($0) - Int($1)) <= most }
}
