import Foundation
import MegatonCore

/// Conversion of paths to URLs and back.
package enum FileNames {
    private static let allowed: CharacterSet = {
        var set = CharacterSet(charactersIn: "/-._~!$&'()*+,;=:@")
        set.formUnion(CharacterSet(charactersIn: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"))
        return set
    }()

    /// `file:///…`, with every character encoded that has a meaning in a URL or in an output template.
    package static func fileURL(_ path: String) -> String { "file://" + encoded(path) }

    /// A part of a path as it is written in a URL.
    package static func encoded(_ path: String) -> String {
        path.addingPercentEncoding(withAllowedCharacters: allowed) ?? path
    }

    /// The path of an argument that is a `file:` URL of this machine; any other argument unchanged.
    package static func localPath(_ argument: String) -> String {
        guard argument.prefix(5).lowercased() == "file:", let url = URL(string: argument), url.isFileURL,
            ["", "localhost"].contains(url.host() ?? "")
        else { return argument }
        let path = url.path(percentEncoded: false)
        return path.hasPrefix("/") && !path.utf8.contains(0) ? path : argument
    }

    /// Whether a text begins like a URL with a host, such as `gs://bucket`. A path of that name is `./gs://bucket`.
    package static func beginsWithScheme(_ text: String) -> Bool {
        guard let end = text.range(of: "://")?.lowerBound, let first = text[..<end].unicodeScalars.first,
            first.isASCII, first.properties.isAlphabetic
        else { return false }
        return text[..<end].allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "+-.".contains($0)) }
    }

    /// An absolute path without `.` and `..`; links stay.
    package static func absolutePath(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }

    /// A name, which need not be UTF-8, as it is written in a URL.
    static func encoded(_ name: [UInt8]) -> String {
        name.map { byte in
            let scalar = Unicode.Scalar(byte)
            if scalar.isASCII && allowed.contains(scalar) { return String(scalar) }
            return HexDigits.percentEncoded(byte)
        }.joined()
    }
}
