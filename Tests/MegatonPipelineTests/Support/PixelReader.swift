internal import CVips
import Foundation

@testable import MegatonPipeline
@testable import MegatonRendering

/// Decodes an encoded image for access to its pixels.
struct PixelReader {
    let width: Int
    let height: Int
    let bands: Int
    private let bytes: [UInt8]

    struct CannotDecode: Error {}

    /// - Parameter options: options of libvips' loader: `n=-1` reads all frames, one below the other.
    init(_ data: Data, options: String = "") throws {
        try VipsRuntime.start()
        let result: (Int, Int, Int, [UInt8])? = data.withUnsafeBytes { buffer in
            var image: UnsafeMutablePointer<CVips.VipsImage>?
            let code = megaton_vips_load(buffer.baseAddress!, buffer.count, options, VIPS_FAIL_ON_ERROR, &image)
            guard code == 0, let image else { return nil }
            defer { megaton_vips_unref(image) }
            var size = 0
            guard let pixels = vips_image_write_to_memory(image, &size) else { return nil }
            defer { g_free(pixels) }
            let bytes = [UInt8](UnsafeRawBufferPointer(start: pixels, count: size))
            return (
                Int(vips_image_get_width(image)), Int(vips_image_get_height(image)),
                Int(vips_image_get_bands(image)), bytes
            )
        }
        guard let result else { throw CannotDecode() }
        (width, height, bands, bytes) = result
    }

    func pixel(_ x: Int, _ y: Int) -> [UInt8] {
        let start = (y * width + x) * bands
        return Array(bytes[start..<(start + bands)])
    }

    /// Mean difference from another image of the same size, 0 to 255 per channel.
    func distance(to other: PixelReader) -> Double {
        guard width == other.width, height == other.height, bands == other.bands else { return .infinity }
        let sum = zip(bytes, other.bytes).reduce(0) { $0 + abs(Int($1.0) - Int($1.1)) }
        return Double(sum) / Double(bytes.count)
    }
}
