internal import CVips
package import Foundation

extension VipsImage {
    /// Evaluates the graph and encodes the result. The returned data owns libvips' buffer without a copy.
    package func encode(_ options: EncodingOptions, stop: Stop) throws(VipsError) -> Data {
        var kept: Metadata = []
        if options.keepMetadata == .copyright { kept.insert(.copyright) }
        if options.profile == .keep && hasProfile { kept.insert(.profile) }
        // Removed here because "strip" is not enough: the WebP saver writes EXIF and XMP regardless (seen in 8.14.1).
        let image = try tapped().keeping(kept)
        let handler = megaton_vips_set_stop(image.pointer, stop.pointer)
        defer { megaton_vips_clear_stop(image.pointer, handler) }
        let how = megaton_vips_saving(
            quality: Int32(options.quality),
            effort: Int32(options.effort ?? options.format.defaultEffort),
            progressive: options.progressive ? 1 : 0,
            lossless: options.lossless ? 1 : 0,
            strip: kept.isEmpty ? 1 : 0
        )
        var bytes: UnsafeMutableRawPointer?
        var length = 0
        let result =
            switch options.format {
            case .jpeg: megaton_vips_jpegsave(image.pointer, how, &bytes, &length)
            case .png: megaton_vips_pngsave(image.pointer, how, &bytes, &length)
            case .webp: megaton_vips_webpsave(image.pointer, how, &bytes, &length)
            case .avif: megaton_vips_avifsave(image.pointer, how, &bytes, &length)
            case .gif: megaton_vips_gifsave(image.pointer, how, &bytes, &length)
            case .jxl: megaton_vips_jxlsave(image.pointer, how, &bytes, &length)
            }
        guard result == 0, let bytes else { throw VipsError() }
        return withExtendedLifetime(image) {
            Data(bytesNoCopy: bytes, count: length, deallocator: .custom { bytes, _ in g_free(bytes) })
        }
    }
}
