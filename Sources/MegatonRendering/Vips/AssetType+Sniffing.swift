package import Foundation

extension Set<AssetType> {
    /// Detects the type of the bytes. It must be in this set, and its codec must be enabled in this process.
    ///
    /// - Throws: `.dataIsEmpty`, `.unsupportedFormat`.
    package func sniff(
        _ data: Data,
        allowed: Set<AssetType> = VipsRuntime.allowed
    ) throws(ImageError) -> AssetType {
        guard !data.isEmpty else { throw ImageError(.dataIsEmpty, "there are no bytes.") }
        let type = AssetType(data)
        guard let type, contains(type) else {
            let known = map(\.description).sorted().joined(separator: ", ")
            // Types that a caller can add, as the command line does with --allow-type.
            let addable: Set<AssetType> = [.tiff, .svg, .jxl]
            var remedy = ""
            if let type, addable.contains(type) { remedy = "; \(type) needs VipsRuntime.allow([.\(type)])" }
            var error = ImageError(
                .unsupportedFormat,
                "the bytes are \(type?.description ?? "of an unknown format") (they begin \(Excerpt.of(data))); "
                    + "these formats are read: \(known)\(remedy)."
            )
            error.excerpt = Excerpt.of(data)
            throw error
        }
        guard allowed.contains(type) else {
            throw ImageError(
                .unsupportedFormat,
                "\(type) is disabled in this process; VipsRuntime.allow([.\(type)]) enables it."
            )
        }
        return type
    }
}
