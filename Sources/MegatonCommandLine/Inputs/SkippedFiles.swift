import Foundation

/// Files of directories and buckets that are left out because their names are not those of images, counted by file
/// extension.
///
/// A tree may have any names, so that memory is bounded: beyond a number of extensions, files with others are counted
/// together.
package struct SkippedFiles: Sendable, Equatable {
    /// Number of all files.
    package private(set) var count = 0
    /// Number of files by extension, in lower case; the empty text is for names without one.
    private var counts: [String: Int] = [:]

    /// Maximum number of extensions that are counted apart.
    private static let limit = 100
    /// Maximum length of an extension, bytes.
    private static let lengthLimit = 16
    /// Maximum number of extensions in a message.
    private static let shown = 5

    package init() {}

    package mutating func add(_ name: String) {
        count += 1
        let fileExtension = Self.fileExtension(of: name)
        guard counts[fileExtension] != nil || counts.count < Self.limit else { return }
        counts[fileExtension, default: 0] += 1
    }

    /// The end of a name that has a usual form for an extension; otherwise empty.
    private static func fileExtension(of name: String) -> String {
        let text = (name as NSString).pathExtension.lowercased()
        let isUsual = text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
            case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"): true
            default: false
            }
        }
        return isUsual && text.utf8.count <= lengthLimit ? text : ""
    }

    /// Number of files with one of these extensions.
    package func count(of fileExtensions: Set<String>) -> Int {
        fileExtensions.reduce(0) { $0 + (counts[$1] ?? 0) }
    }

    /// A sentence with the most frequent extensions; nil if no file was left out.
    package var remark: String? {
        guard count > 0 else { return nil }
        let reason =
            count == 1
            ? "was left out: its name is not that of an image" : "were left out: their names are not those of images"
        let frequent = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(Self.shown)
        let parts = frequent.map { "\($0.value) \($0.key.isEmpty ? "without an extension" : ".\($0.key)")" }
        let rest = count - frequent.reduce(0) { $0 + $1.value }
        let others = rest > 0 ? " and \(Counted.of(rest, "other"))" : ""
        return "\(Counted.files(count)) in the directories \(reason) (\(parts.joined(separator: ", "))\(others))."
    }
}
