internal import Foundation
internal import FoundationNetworking

/// Redirect rules of a load (RFC 9110 section 15.4). Pure state, no I/O.
package struct Redirects {
    /// Maximum number of redirects.
    let limit: Int
    /// Redirects so far.
    private(set) var count = 0

    init(limit: Int) { self.limit = limit }

    static func isRedirect(_ status: Int) -> Bool { [301, 302, 303, 307, 308].contains(status) }

    /// The request that a redirect leads to. Its URL is not checked here.
    ///
    /// - Returns: nil if the response is not a redirect, or has no location.
    /// - Throws: `.tooManyRedirects` beyond the limit, `.invalidURL` for an invalid location.
    mutating func next(
        after request: URLRequest,
        status: Int,
        location: String?
    ) throws(ImageError) -> URLRequest? {
        guard Self.isRedirect(status), let location, !location.isEmpty, let url = request.url else { return nil }
        guard count < limit else {
            throw ImageError(.tooManyRedirects, "It redirects more than \(limit) times.")
        }
        guard let target = URL(string: Self.escaped(location), relativeTo: url)?.absoluteURL, let scheme = target.scheme
        else {
            throw ImageError(.invalidURL, "It redirects to a location that is not a URL.")
        }
        guard ["http", "https"].contains(scheme.lowercased()) else {
            throw ImageError(.invalidURL, "It redirects to \(scheme): where only http and https are followed.")
        }
        count += 1
        var next = request
        next.url = target
        let method = request.httpMethod?.uppercased() ?? "GET"
        if (status == 303 && method != "HEAD") || ((status == 301 || status == 302) && method == "POST") {
            next.httpMethod = "GET"
            next.httpBody = nil
            next.setValue(nil, forHTTPHeaderField: "Content-Type")
        }
        if let old = URLParts(url), let new = URLParts(target), old.isSameOrigin(as: new) { return next }
        // A field of any name may carry a secret: fields not known to be harmless are sent to their own origin only.
        for name in (next.allHTTPHeaderFields ?? [:]).keys where !Self.kept.contains(name.lowercased()) {
            next.setValue(nil, forHTTPHeaderField: name)
        }
        return next
    }

    /// Percent-encodes all bytes of a location that are not valid after its host. If Foundation finds one of them, it
    /// also encodes the percent signs of existing escapes.
    package static func escaped(_ location: String) -> String {
        let bytes = Array(location.utf8)
        var start = 0
        let scheme = bytes.firstIndex { [UInt8(ascii: ":"), UInt8(ascii: "/")].contains($0) } ?? 0
        for hostStart in [0, scheme + 1] where bytes.dropFirst(hostStart).starts(with: "//".utf8) {
            start = bytes[(hostStart + 2)...].firstIndex { "/?#".utf8.contains($0) } ?? bytes.count
            break
        }
        var result = Array(bytes[..<start])
        for (index, byte) in bytes.enumerated().dropFirst(start) {
            if isAllowed(byte) || (byte == UInt8(ascii: "%") && isEscape(bytes, at: index)) {
                result.append(byte)
            } else {
                result += "%".utf8
                for digit in [byte >> 4, byte & 15] { result.append(Array("0123456789ABCDEF".utf8)[Int(digit)]) }
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
            || "-._~:/?#@!$&'()*+,;=".utf8.contains(byte)
    }

    /// Whether two hex digits follow a percent sign.
    private static func isEscape(_ bytes: [UInt8], at index: Int) -> Bool {
        let digits = bytes[(index + 1)...].prefix(2)
        return digits.count == 2 && digits.allSatisfy { "0123456789abcdefABCDEF".utf8.contains($0) }
    }

    /// Header fields that do not identify the caller. The name of a credential is not a credential: ``Credentials``
    /// decides for each host.
    private static let kept: Set<String> = [
        "accept", "accept-encoding", "accept-language", "cache-control", "content-type", "if-match",
        "if-modified-since",
        "if-none-match", "if-range", "if-unmodified-since", "megaton-credential", "pragma", "range", "user-agent",
    ]
}
