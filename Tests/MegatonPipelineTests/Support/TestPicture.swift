internal import CVips
import Foundation
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Images made with the code under test, for tests of something else.
enum TestPicture {
    /// An opaque image with a smooth change from left to right and from top to bottom.
    static func gradient(_ width: Int, _ height: Int) throws -> PlatformImage {
        var pixels = [UInt8](repeating: 128, count: width * height * 3)
        for y in 0..<height {
            for x in 0..<width {
                pixels[(y * width + x) * 3] = UInt8(x * 255 / max(1, width - 1))
                pixels[(y * width + x) * 3 + 1] = UInt8(y * 255 / max(1, height - 1))
            }
        }
        return try #require(PlatformImage(width: width, height: height, bands: 3, pixels: Data(pixels)))
    }

    /// An opaque image of one color.
    static func plain(_ width: Int, _ height: Int, _ color: [UInt8]) throws -> PlatformImage {
        var pixels = Data(capacity: width * height * color.count)
        for _ in 0..<(width * height) { pixels.append(contentsOf: color) }
        return try #require(PlatformImage(width: width, height: height, bands: color.count, pixels: pixels))
    }

    static func jpeg(_ width: Int, _ height: Int, progressive: Bool = false) throws -> Data {
        let encoder = ImageEncoders.Vips(format: .jpeg, quality: 90, progressive: progressive)
        return try #require(encoder.encode(gradient(width, height)))
    }

    /// A progressive JPEG, split after each of its scans; the last piece is the rest.
    static func scans(of data: Data) throws -> [Data] {
        // Start of scan (ITU-T T.81 table B.1). The header of the next one shows that a scan has ended.
        let starts = data.indices.dropLast(4).filter { data[$0] == 0xFF && data[$0 + 1] == 0xDA }
        try #require(starts.count == JPEGScans(data).count && starts.count > 3)
        let headers = starts.map { $0 + 2 + Int(data[$0 + 2]) << 8 + Int(data[$0 + 3]) }
        let cuts = [0] + headers.dropFirst() + [data.count]
        return zip(cuts, cuts.dropFirst()).map { data[$0..<$1] }
    }

    /// An animation of gray frames: the first is black, each next one lighter by a step, modulo 256.
    static func animation(
        _ width: Int,
        _ height: Int,
        frames: Int,
        step: Int = 10,
        as format: Rendition.Format
    ) throws -> Data {
        var pixels = Data(capacity: width * height * frames * 3)
        for frame in 0..<frames {
            pixels.append(contentsOf: repeatElement(UInt8(frame * step % 256), count: width * height * 3))
        }
        let stop = VipsImage.Stop(RenderDeadline(.now + .seconds(60)))
        let roll = try pixels.withUnsafeBytes {
            try VipsImage.fromMemory($0, PixelSize(width: width, height: height * frames), bands: 3)
        }
        vips_image_set_int(roll.pointer, "page-height", Int32(height))
        vips_image_set_int(roll.pointer, "loop", 3)
        var delays = [Int32](repeating: 50, count: frames)
        vips_image_set_array_int(roll.pointer, "delay", &delays, Int32(frames))
        return try withExtendedLifetime(stop) {
            try roll.encode(Rendition(format: format, lossless: format == .webp, animated: true), stop: stop).data
        }
    }

    /// An animated WebP with an EXIF orientation below 256 (RFC 9649, section 2.7.1: the flags of VP8X, which is the
    /// first chunk, and a chunk after the frames).
    static func turned(_ webp: Data, orientation: UInt8) -> Data {
        // One field of IFD 0 behind the header: the tag 0x0112, one number of 16 bits.
        let header: [UInt8] = [0x4D, 0x4D, 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12]
        let tiff = Data(header + [0, 3, 0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0])
        var file = webp + Data("EXIF".utf8) + [UInt8(tiff.count), 0, 0, 0] + tiff
        file[20] |= 0x08
        withUnsafeBytes(of: UInt32(file.count - 8).littleEndian) { file.replaceSubrange(4..<8, with: $0) }
        return file
    }

    /// Number of loops of an animation, and the duration of each frame in milliseconds.
    static func timing(_ data: Data) throws -> (loop: Int, delays: [Int32]) {
        try data.withUnsafeBytes { bytes in
            let image = try VipsImage.open(bytes, options: "n=-1")
            var (delays, count): (UnsafeMutablePointer<Int32>?, Int32) = (nil, 0)
            try #require(vips_image_get_array_int(image.pointer, "delay", &delays, &count) == 0)
            return (image.integer("loop", default: -1), (0..<Int(count)).map { delays?[$0] ?? -1 })
        }
    }

    /// A metadata field of an image as libvips reports it, or nil.
    static func field(_ name: String, of data: Data) throws -> String? {
        try data.withUnsafeBytes { bytes in
            let image = try VipsImage.open(bytes)
            var text: UnsafeMutablePointer<CChar>?
            guard vips_image_get_typeof(image.pointer, name) != 0,
                vips_image_get_as_string(image.pointer, name, &text) == 0,
                let text
            else { return nil }
            defer { g_free(text) }
            return String(cString: text)
        }
    }

    /// The names of all metadata fields.
    static func fields(of data: Data) throws -> Set<String> {
        try data.withUnsafeBytes { bytes in
            let image = try VipsImage.open(bytes)
            guard let names = vips_image_get_fields(image.pointer) else { return [] }
            defer { g_strfreev(names) }
            var all: Set<String> = []
            var index = 0
            while let name = names[index] {
                all.insert(String(cString: name))
                index += 1
            }
            return all
        }
    }
}
