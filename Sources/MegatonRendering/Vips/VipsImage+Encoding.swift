internal import CVips
internal import Foundation

extension VipsImage {
    /// Evaluates the graph and encodes the result, at a lower quality if it has more than the `maxBytes` of the
    /// rendition, and at the lowest one with its `targetScore`. The pixels are computed once.
    ///
    /// - Returns: the score only if the rendition has a target.
    func encode(_ rendition: Rendition, stop: Stop) throws(VipsError) -> (data: Data, score: Double?) {
        if rendition.maxBytes == nil && rendition.targetScore == nil {
            return (try encodeOnce(rendition, stop: stop), nil)
        }
        let pixels = try inMemory(stop: stop)
        if let target = rendition.targetScore, let found = try pixels.encode(rendition, scoring: target, stop) {
            return (found.data, found.score)
        }
        let data = try EncodedSize.fit(rendition, tooLarge: { VipsError($0) }) { rendition throws(VipsError) in
            try pixels.encodeOnce(rendition, stop: stop)
        }
        return (data, nil)
    }

    /// - Returns: nil for an image that is too small to have a score.
    private func encode(
        _ rendition: Rendition,
        scoring target: Double,
        _ stop: Stop
    ) throws(VipsError) -> TargetScore.Scored? {
        let (samples, width) = try scoreSample(rendition.background)
        guard let reference = SSIMULACRA2(samples, width: width) else { return nil }
        return try TargetScore.find(rendition, target: target, tooLarge: { VipsError($0) }) {
            rendition throws(VipsError) in
            try encodeOnce(rendition, stop: stop)
        } score: { data throws(VipsError) in
            let result = data.withUnsafeBytes { bytes in
                Result { () throws(VipsError) in
                    try VipsImage.open(bytes, options: "", failOn: .nothing).scoreSample(rendition.background).pixels
                }
            }
            guard let score = reference.score(of: try result.get()) else {
                throw VipsError("the encoded image has another size than its pixels")
            }
            return score
        }
    }

    /// The middle of the image in 8-bit sRGB, on the background: three bytes for each pixel.
    private func scoreSample(_ background: Color) throws(VipsError) -> (pixels: [UInt8], width: Int) {
        let part = PixelSize(
            width: min(width, TargetScore.sampleSide),
            height: min(height, TargetScore.sampleSide)
        )
        let middle = try extract((width - part.width) / 2, (height - part.height) / 2, part)
        let opaque = hasAlpha ? try middle.flattened(background) : middle
        return (try opaque.eightBit().inColor().samples(), part.width)
    }

    /// All samples, row by row.
    private func samples() throws(VipsError) -> [UInt8] {
        var length = 0
        guard let bytes = vips_image_write_to_memory(pointer, &length) else { throw VipsError() }
        defer { g_free(bytes) }
        return [UInt8](UnsafeRawBufferPointer(start: bytes, count: length))
    }

    /// The returned data owns libvips' buffer without a copy.
    private func encodeOnce(_ rendition: Rendition, stop: Stop) throws(VipsError) -> Data {
        var kept: Metadata = []
        if rendition.keepMetadata == .copyright { kept.insert(.copyright) }
        if rendition.profile == .keep && hasProfile { kept.insert(.profile) }
        // Removed here because "strip" is not enough: the WebP saver writes XMP regardless (seen in 8.14.1).
        let image = try tapped().keeping(kept)
        let handler = megaton_vips_set_stop(image.pointer, stop.pointer)
        defer { megaton_vips_clear_stop(image.pointer, handler) }
        let samples = width * height * bands * bytesPerSample
        let isCompressedAgain = rendition.format == .png && !rendition.progressive && samples <= PNGCompression.limit
        var arguments =
            RenditionOption.encoding.compactMap { $0.encoding?.argument(rendition) }
            + (rendition.format == .avif ? ["compression=av1"] : [])
            // Renamed to "keep" in libvips 8.15; "strip" still works there.
            + (kept.isEmpty ? ["strip=true"] : [])
        if isCompressedAgain {
            arguments.removeAll { $0.hasPrefix("compression=") }
            arguments += PNGCompression.arguments
        }
        var bytes: UnsafeMutableRawPointer?
        var length = 0
        let result = megaton_vips_save(
            image.pointer,
            rendition.format.saver,
            arguments.joined(separator: ","),
            &bytes,
            &length
        )
        guard result == 0, let bytes else { throw VipsError() }
        let data = withExtendedLifetime(image) {
            Data(bytesNoCopy: bytes, count: length, deallocator: .custom { bytes, _ in g_free(bytes) })
        }
        // It also makes an EXIF block of its own, with the resolution and the orientation.
        if rendition.format == .webp && !kept.contains(.copyright) { return WebPMetadata.withoutEXIF(data) }
        guard isCompressedAgain else { return data }
        let effort = rendition.effort ?? rendition.format.defaultEffort
        guard let compressed = PNGCompression.compressed(data, effort: effort) else {
            throw VipsError("there is no memory to compress its rows")
        }
        return compressed
    }
}

extension Rendition.Format {
    /// The operation of libvips that writes the format.
    fileprivate var saver: String {
        switch self {
        case .jpeg, .png, .webp, .gif, .jxl: "\(rawValue)save_buffer"
        case .avif: "heifsave_buffer"
        }
    }
}

/// The metadata of an encoded WebP image (RFC 9649).
private enum WebPMetadata {
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
