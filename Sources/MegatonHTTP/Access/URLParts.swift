internal import CCurl
package import Foundation

/// Parts of a URL with a host, as parsed by libcurl, which makes the connection.
///
/// Two parsers may see different hosts in the same text (`http:///a`, `http://a\@b`), so a check with one of them does
/// not cover the other. A URL on which Foundation and libcurl disagree has no parts.
package struct URLParts: Sendable, Hashable {
    /// Scheme in lower case.
    let scheme: String
    /// Host in lower case, without brackets and without a trailing dot; numeric forms of IPv4 addresses are dotted.
    let host: String
    /// Port as written in the URL, if any.
    let explicitPort: Int?
    /// Components of the path, percent-decoded, without empty ones at the end.
    let components: [String]
    /// Whether the path contains `.`, `..`, NUL or additional separators, possibly encoded more than once.
    let hasOddPath: Bool
    let hasUser: Bool

    package init?(_ url: URL) {
        guard let scheme = url.scheme?.lowercased(), let named = url.host(percentEncoded: false), !named.isEmpty else {
            return nil
        }
        // libcurl does not know `s3:`, so other schemes are parsed by the rules of http.
        let text = url.absoluteString.dropFirst(scheme.utf8.count)
        guard let parsed = megaton_curl_url_parse("http\(text)") else { return nil }
        defer { curl_url_cleanup(parsed) }
        func part(_ part: CURLUPart) -> String? {
            guard let value = megaton_curl_url_part(parsed, part, 0) else { return nil }
            defer { curl_free(value) }
            return String(cString: value)
        }
        // Foundation has converted other letters to Punycode when it created the URL.
        guard let raw = part(CURLUPART_HOST), raw.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        let host = Self.canonical(raw)
        guard !host.isEmpty else { return nil }
        let isNumeric = IPAddress(host).map { $0.bytes.count == 4 } ?? false
        guard host == Self.canonical(named) || isNumeric, part(CURLUPART_ZONEID) == nil else { return nil }
        let port = part(CURLUPART_PORT).flatMap { Int($0) }
        guard port == url.port else { return nil }
        self.scheme = scheme
        self.host = host
        explicitPort = port
        hasUser =
            url.user() != nil || url.password() != nil || part(CURLUPART_USER) != nil || part(CURLUPART_PASSWORD) != nil
        let path = url.path(percentEncoded: true)
        hasOddPath = Self.isOdd(path)
        components = Self.trimmed(
            path.utf8.split(separator: Self.slash, omittingEmptySubsequences: false).map { bytes in
                let part = String(Substring(bytes))
                return bytes.contains(Self.percent) ? part.removingPercentEncoding ?? part : part
            }
        )
    }

    var usualPort: Int { Self.usualPorts[scheme] ?? 443 }

    private static let usualPorts = ["http": 80, "ftp": 21]

    package var port: Int { explicitPort ?? usualPort }

    /// Whether two URLs have the same origin (RFC 6454 section 4).
    package func isSameOrigin(as other: URLParts) -> Bool {
        scheme == other.scheme && host == other.host && port == other.port
    }

    private static func canonical(_ host: String) -> String {
        var host = host.lowercased()
        if host.utf8.first == UInt8(ascii: "["), host.utf8.last == UInt8(ascii: "]") {
            host = String(host.dropFirst().dropLast())
        }
        if host.utf8.last == dot { host = String(Substring(host.utf8.dropLast())) }
        return IPAddress(host)?.description ?? host
    }

    /// Removes the empty component before the first slash, and those after the last one.
    private static func trimmed(_ components: [String]) -> [String] {
        var components = components.first == "" ? Array(components.dropFirst()) : components
        while components.last == "" { components.removeLast() }
        return components
    }

    private static let percent = UInt8(ascii: "%")
    private static let slash = UInt8(ascii: "/")
    private static let backslash = UInt8(ascii: "\\")
    private static let dot = UInt8(ascii: ".")

    /// By bytes, as servers read it: a letter that combines with a slash makes it another character, and a byte that is
    /// not UTF-8 must not hide the others that are encoded beside it.
    private static func isOdd(_ path: String) -> Bool {
        var bytes = Array(path.utf8)
        let slashes = bytes.count { $0 == slash }
        // Some servers decode more than once.
        for _ in 0..<3 {
            if hasOddPart(bytes) || bytes.count(where: { $0 == slash }) != slashes { return true }
            guard bytes.contains(percent) else { break }
            let decoded = decoded(bytes)
            if decoded.count == bytes.count { break }
            bytes = decoded
        }
        return false
    }

    /// Replaces each percent sign with two hex digits by the byte that they name (RFC 3986 section 2.1).
    private static func decoded(_ bytes: [UInt8]) -> [UInt8] {
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            if bytes[index] == percent, index + 2 < bytes.count, let high = digit(bytes[index + 1]),
                let low = digit(bytes[index + 2])
            {
                decoded.append(high << 4 | low)
                index += 3
            } else {
                decoded.append(bytes[index])
                index += 1
            }
        }
        return decoded
    }

    private static func digit(_ byte: UInt8) -> UInt8? { Character(UnicodeScalar(byte)).hexDigitValue.map(UInt8.init) }

    /// Whether a path contains `.` or `..` as a component, a backslash, or NUL.
    private static func hasOddPart(_ path: [UInt8]) -> Bool {
        // Nil in a component that has more than dots.
        var dots: Int? = 0
        for byte in path {
            switch byte {
            case slash:
                if let dots, dots == 1 || dots == 2 { return true }
                dots = 0
            case dot: dots = dots.map { $0 + 1 }
            case backslash, 0: return true
            default: dots = nil
            }
        }
        return dots == 1 || dots == 2
    }
}
