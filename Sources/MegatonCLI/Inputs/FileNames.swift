import Foundation
import MegatonCluster

/// Paths as URLs, and names that fit into paths.
enum FileNames {
    private static let allowed: CharacterSet = {
        var set = CharacterSet(charactersIn: "/-._~!$&'()*+,;=:@")
        set.formUnion(CharacterSet(charactersIn: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"))
        return set
    }()

    /// `file:///…`, with all encoded that means something in a URL or in an output template.
    static func fileURL(_ path: String) -> String {
        "file://" + (path.addingPercentEncoding(withAllowedCharacters: allowed) ?? path)
    }

    /// The path of an argument that is a `file:` URL of this machine; any other argument as it is.
    static func localPath(_ argument: String) -> String {
        guard argument.prefix(5).lowercased() == "file:", let url = URL(string: argument), url.isFileURL,
            ["", "localhost"].contains(url.host() ?? "")
        else { return argument }
        let path = url.path(percentEncoded: false)
        return path.hasPrefix("/") && !path.utf8.contains(0) ? path : argument
    }

    /// A name that need not be UTF-8, as it stands in a URL.
    static func encoded(_ name: [UInt8]) -> String {
        name.map { byte in
            let scalar = Unicode.Scalar(byte)
            if scalar.isASCII && allowed.contains(scalar) { return String(scalar) }
            return (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
        }.joined()
    }

    static func components(of url: URL) -> [String] { OutputTemplate.components(of: url) }

    static func plain(_ component: String) -> String { OutputTemplate.plain(component) }

    static func hash(_ text: String) -> String { OutputTemplate.hash(text) }
}
