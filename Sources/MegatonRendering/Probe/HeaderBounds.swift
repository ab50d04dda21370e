internal import Foundation

/// Limits on the cost of reading a header. libvips cannot be interrupted there, and no memory has been admitted yet, so
/// headers that libvips cannot read quickly are refused before it opens them. Measured with libvips 8.14.1:
///
/// - 12 million empty APP1 segments before a JPEG's frame, 48 MB, take more than 25 s, because libvips looks up each
///   one in a list of all; 100,000 of them between two scans of a progressive JPEG, 400 kB, take 17 s;
/// - 200,000 frames of an animated WebP, 9 MB, take more than 25 s; 50,000 take 3.3 s;
/// - 7 MB of compressed text in a PNG grow to 1.2 GiB in 8 s.
enum HeaderBounds {
    /// Segments of a JPEG, including scans; chunks of a WebP, in which each frame is a chunk.
    static let parts = 16_384
    /// Scans of a JPEG: each one passes over all coefficients. Encoders write a dozen.
    static let scans = 500
    /// Bytes to which the compressed texts of a PNG may grow, together.
    static let text = 128 << 20
    /// libpng's limit: it inflates no text beyond this size.
    private static let longestText = 8_000_000
    /// The largest factor by which deflate expands a byte (RFC 1951: 258 bytes for 2 bits).
    private static let inflation = 1032

    /// - Throws: `.headerTooLarge`.
    static func check(_ data: Data, _ type: AssetType) throws(ImageError) {
        let validationError: String? = data.withUnsafeBytes { bytes in
            switch type {
            case .jpeg: segmentsError(bytes)
            case .webp: partsError(ImageChunks.riff(bytes).prefix(parts + 1).count { _ in true }, "chunks")
            case .png:
                inflated(bytes) > text ? "compressed texts that may grow to more than \(text >> 20) MiB" : nil
            case .svg: SVGBounds.validationError(bytes)
            // A GIF header is read in one step, and `HEIFDemand` measures the boxes of a HEIF file.
            default: nil
            }
        }
        if let validationError, type == .svg { throw ImageError(.tooCostly, "the SVG \(validationError).") }
        if let validationError { throw ImageError(.headerTooLarge, "the header has \(validationError).") }
    }

    private static func segmentsError(_ bytes: UnsafeRawBufferPointer) -> String? {
        let found = segments(of: bytes)
        return found.scans > scans ? "more than \(scans) scans" : partsError(found.parts, "segments")
    }

    private static func partsError(_ count: Int, _ what: String) -> String? {
        count > parts ? "more than \(parts) \(what)" : nil
    }

    /// Counts segments and scans up to the end of the image. Stops one above the limit.
    private static func segments(of bytes: UnsafeRawBufferPointer) -> (parts: Int, scans: Int) {
        var (count, found) = (0, 0)
        for segment in JPEGMarkers(bytes) {
            count += 1
            if segment.marker == JPEGMarkers.startOfScan { found += 1 }
            if count > parts || found > scans { break }
        }
        return (count, found)
    }

    /// The size that the header of a RIFF file names, in bytes. libwebp refuses a file that has fewer, without naming
    /// the cause.
    static func declaredSize(ofRIFF data: Data) -> Int? {
        data.withUnsafeBytes { bytes in
            bytes.count < 12
                ? nil : Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self))) + 8
        }
    }

    /// An upper bound of the size of a PNG's texts after decompression, in bytes (PNG third edition, section 11.3.3).
    private static func inflated(_ bytes: UnsafeRawBufferPointer) -> Int {
        var sum = 0
        for chunk in ImageChunks.png(bytes) {
            if sum > text { break }
            // An iTXt may be uncompressed; it does not grow then.
            if chunk.name == "zTXt" || chunk.name == "iTXt" && isCompressed(bytes, chunk.content.lowerBound) {
                sum += min(longestText, chunk.content.count * inflation)
            }
        }
        return sum
    }

    /// Whether the compression flag of an iTXt is set. It follows the keyword, which has 1 to 79 bytes and ends with a
    /// zero.
    private static func isCompressed(_ bytes: UnsafeRawBufferPointer, _ start: Int) -> Bool {
        let end = min(bytes.count - 1, start + 80)
        guard start < end, let zero = bytes[start..<end].firstIndex(of: 0) else { return false }
        return bytes[zero + 1] != 0
    }
}
