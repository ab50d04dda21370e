internal import CVips
internal import Foundation

extension VipsImage {
    /// Metadata that may stay with an image.
    struct Metadata: OptionSet {
        let rawValue: Int

        init(rawValue: Int) { self.rawValue = rawValue }

        /// EXIF's Copyright and Artist (CIPA DC-008 section 4.6.4), and no other field: no location, camera or time.
        static let copyright = Metadata(rawValue: 1)
        static let profile = Metadata(rawValue: 2)
    }

    /// Frame layout, delays and loop count: part of the animation itself, not metadata.
    private static let animation: Set<String> = ["page-height", "n-pages", "delay", "loop"]
    private static let profile = "icc-profile-data"
    private static let exif = "exif-data"

    var hasProfile: Bool { vips_image_get_typeof(pointer, Self.profile) != 0 }

    /// Whether the colors are RGB, with or without alpha. Only then can an embedded profile stay with the image in
    /// every format.
    var isRGB: Bool {
        let rgb = [VIPS_INTERPRETATION_sRGB, VIPS_INTERPRETATION_RGB16, VIPS_INTERPRETATION_RGB]
        return bands >= 3 && rgb.contains(vips_image_get_interpretation(pointer))
    }

    func integer(_ name: String, default fallback: Int) -> Int {
        Int(megaton_vips_get_int(pointer, name, Int32(fallback)))
    }

    /// Name of the loader that opened the image, e.g. `jpegload_buffer`.
    var loader: String { text(of: "vips-loader") }

    /// The small JPEG that cameras embed in EXIF.
    var embeddedThumbnail: Data? { blob("jpeg-thumbnail-data") }

    /// A copy of the bytes of a field; nil if there are none.
    private func blob(_ name: String) -> Data? {
        var bytes: UnsafeRawPointer?
        var length = 0
        guard vips_image_get_typeof(pointer, name) != 0,
            vips_image_get_blob(pointer, name, &bytes, &length) == 0, let bytes, length > 0
        else { return nil }
        return Data(bytes: bytes, count: length)
    }

    /// The same image with another orientation.
    func oriented(_ orientation: Int) throws(VipsError) -> VipsImage {
        let copy = try Self.make { megaton_vips_copy(pointer, $0) }
        vips_image_set_int(copy.pointer, "orientation", Int32(orientation))
        return copy
    }

    /// The same pixels, with all metadata removed except the given ones.
    func keeping(_ metadata: Metadata) throws(VipsError) -> VipsImage {
        let copy = try Self.make { megaton_vips_copy(pointer, $0) }
        var exif = CopyrightEXIF()
        // Before its fields are removed, as the block may be longer than these.
        let block = metadata.contains(.copyright) ? copy.blob(Self.exif) : nil
        for name in copy.fields {
            if metadata.contains(.copyright), CopyrightEXIF.tags[name] != nil {
                exif.add(name, copy.text(of: name))
            }
            if Self.animation.contains(name) || (metadata.contains(.profile) && name == Self.profile) { continue }
            // Header fields such as the width are not metadata and cannot be removed.
            vips_image_remove(copy.pointer, name)
        }
        if let block { exif.add(block: block) }
        if exif.isEmpty { return copy }
        exif.block.withUnsafeBytes {
            vips_image_set_blob_copy(copy.pointer, Self.exif, $0.baseAddress, $0.count)
        }
        // Savers prefer these fields to the block, so both must match.
        for (name, value) in exif.fields { vips_image_set_string(copy.pointer, name, value) }
        return copy
    }

    private var fields: [String] {
        guard let names = vips_image_get_fields(pointer) else { return [] }
        defer { g_strfreev(names) }
        var fields: [String] = []
        while let name = names[fields.count] { fields.append(String(cString: name)) }
        return fields
    }

    private func text(of field: String) -> String {
        var text: UnsafePointer<CChar>?
        guard vips_image_get_string(pointer, field, &text) == 0, let text else { return "" }
        return String(cString: text)
    }
}
