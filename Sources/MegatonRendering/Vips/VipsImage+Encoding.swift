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
        let arguments =
            options.saverArguments
            // Renamed to "keep" in libvips 8.15; "strip" still works there.
            + (kept.isEmpty ? ["strip=true"] : [])
        var bytes: UnsafeMutableRawPointer?
        var length = 0
        let result = megaton_vips_save(
            image.pointer,
            options.format.saver,
            arguments.joined(separator: ","),
            &bytes,
            &length
        )
        guard result == 0, let bytes else { throw VipsError() }
        return withExtendedLifetime(image) {
            Data(bytesNoCopy: bytes, count: length, deallocator: .custom { bytes, _ in g_free(bytes) })
        }
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

extension EncodingOptions {
    /// The arguments of the format's operation, except for metadata.
    fileprivate var saverArguments: [String] {
        var arguments: [String] = []
        if format.hasQuality { arguments.append("Q=\(quality)") }
        if format.efforts != nil {
            arguments.append("\(format == .png ? "compression" : "effort")=\(effort ?? format.defaultEffort)")
        }
        if progressive && format.isProgressive { arguments.append("interlace=true") }
        if lossless && format.hasLossless { arguments.append("lossless=true") }
        if format == .avif { arguments.append("compression=av1") }
        return arguments
    }
}
