internal import Foundation

/// The metadata of an encoded WebP image (RFC 9649).
enum WebPMetadata {
    /// Offset of the flags of `VP8X`, which is the first chunk if there is one.
    private static let flags = 20
    /// The flag of `EXIF`.
    private static let exif: UInt8 = 0x08

    /// The image without its chunk `EXIF`; unchanged if it has none.
    static func withoutEXIF(_ data: Data) -> Data {
        let (range, isExtended) = data.withUnsafeBytes { bytes in
            let chunks = Array(ImageChunks.riff(bytes).prefix(Self.most))
            return (chunks.last { $0.name == "EXIF" }?.whole, chunks.first?.name == "VP8X")
        }
        guard let range, isExtended, range.upperBound <= data.count else { return data }
        var result = Data(data.prefix(range.lowerBound)) + Data(data.dropFirst(range.upperBound))
        result[flags] &= ~exif
        let size = UInt32(result.count - 8)
        for index in 0..<4 { result[4 + index] = UInt8(truncatingIfNeeded: size >> (8 * UInt32(index))) }
        return result
    }

    /// Maximum number of chunks: an animation has one for each frame. libvips writes `EXIF` behind them.
    private static let most = 100_000
}
