internal import Foundation

extension Set<AssetType> {
    /// What the bytes are, if it is one of these kinds and this process has its codec switched on.
    ///
    /// - Throws: `.dataIsEmpty`, `.unsupportedFormat`.
    func sniff(
        _ data: Data,
        allowed: Set<AssetType> = VipsRuntime.allowed
    ) throws(ImagePipeline.Error) -> AssetType {
        guard !data.isEmpty else { throw ImagePipeline.Error(.dataIsEmpty, "there are no bytes.") }
        let type = AssetType(data)
        guard let type, contains(type) else {
            let known = map(\.description).sorted().joined(separator: ", ")
            var error = ImagePipeline.Error(
                .unsupportedFormat,
                "the bytes are \(type?.description ?? "of no known kind") (they begin \(Self.excerpt(data))); "
                    + "images of these kinds are read: \(known)."
            )
            error.excerpt = Self.excerpt(data)
            throw error
        }
        guard allowed.contains(type) else {
            throw ImagePipeline.Error(
                .unsupportedFormat,
                "\(type) is not switched on in this process: VipsRuntime.allow([.\(type)]) does that."
            )
        }
        return type
    }

    /// The first bytes for people: text where it is text, else hex.
    private static func excerpt(_ data: Data) -> String {
        let head = data.prefix(24)
        if head.allSatisfy({ (32..<127).contains($0) || $0 == 10 || $0 == 13 || $0 == 9 }) {
            return "\""
                + String(decoding: head, as: UTF8.self).split(whereSeparator: \.isNewline).joined(separator: " ") + "\""
        }
        return head.prefix(12).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(separator: " ")
    }
}
