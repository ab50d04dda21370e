internal import Foundation

/// One rule of an allow-list: `[scheme://]host[:port][/path]`.
///
/// | rule | allows |
/// | --- | --- |
/// | `example.com` | that host, by http and https on their default ports |
/// | `*.example.com` | all hosts beneath it, but not itself |
/// | `example.com:8080`, `example.com:*` | that port, any port |
/// | `https://example.com/images` | `/images` and paths beneath it, not `/images2`, by https |
/// | `s3://bucket/originals` | the keys `originals/…` |
///
/// Hosts are compared as libcurl parses them: in lower case, as Punycode and without a trailing dot. Paths are compared
/// by components, percent-decoded.
public struct SourceRule: Sendable, Hashable, CustomStringConvertible {
    /// Scheme in lower case; nil for http and https.
    let scheme: String?
    /// Host without the `*.`.
    let host: String
    let isWildcard: Bool
    let port: Port
    /// Components of the path, percent-decoded.
    let components: [String]
    public let description: String

    enum Port: Hashable {
        /// Default port of the scheme.
        case usual
        case any
        case number(Int)
    }

    /// - Throws: `.invalidURL` if the text is not a rule.
    public init(_ text: String) throws(ImageError) {
        description = text
        var rest = Substring(text.trimmingCharacters(in: .whitespaces))
        var scheme: String?
        if let mark = rest.range(of: "://") {
            scheme = rest[..<mark.lowerBound].lowercased()
            rest = rest[mark.upperBound...]
        }
        let isWildcard = rest.hasPrefix("*.")
        if isWildcard { rest = rest.dropFirst(2) }
        var port = Port.usual
        let authority = rest.prefix { $0 != "/" }
        var place = String(rest)
        if authority.hasSuffix(":*") {
            port = .any
            place = String(authority.dropLast(2) + rest.dropFirst(authority.count))
        }
        // A bucket is in the place of a host.
        guard ["http", "https", "s3", "ftp", nil].contains(scheme), let url = URL(string: "http://\(place)"),
            let parts = URLParts(url), !parts.host.contains("*"), url.query() == nil, url.fragment() == nil,
            !parts.hasUser, !parts.hasOddPath
        else {
            throw ImageError(
                .invalidURL,
                "\"\(text)\" is not a rule for sources; an example is example.com, *.example.com:8443 or "
                    + "https://example.com/path."
            )
        }
        if port == .usual, let number = parts.explicitPort { port = .number(number) }
        self.scheme = scheme
        self.isWildcard = isWildcard
        self.port = port
        host = parts.host
        components = parts.components
    }

    /// Ports that the rule names; nil for the default ones of the schemes.
    package var namedPorts: ClosedRange<Int>? {
        switch port {
        case .usual: nil
        case .any: 1...65535
        case .number(let number): number...number
        }
    }

    /// Whether the rule allows a URL.
    func matches(_ parts: URLParts) -> Bool {
        guard scheme.map({ $0 == parts.scheme }) ?? ["http", "https"].contains(parts.scheme) else { return false }
        guard isWildcard ? parts.host.hasSuffix(".\(host)") : parts.host == host else { return false }
        switch port {
        case .any: break
        case .usual: guard parts.explicitPort == nil || parts.port == parts.usualPort else { return false }
        case .number(let number): guard parts.port == number else { return false }
        }
        if components.isEmpty { return true }
        // The server decides where `..` and its encoded forms lead: such a path is beneath no other.
        return !parts.hasOddPath && parts.components.starts(with: components)
    }
}
