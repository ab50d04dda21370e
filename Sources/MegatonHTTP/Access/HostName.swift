package import Foundation

/// Names of hosts, as limits, statistics and purges count them.
package enum HostName {
    /// The host of a URL as libcurl reads it, so that all spellings of a host have one name: in lower case, without
    /// percent-encoding, brackets and a dot at the end, with the numeric forms of IPv4 addresses dotted, and other
    /// letters in Punycode. A host that libcurl does not read is its percent-encoded text in lower case.
    package static func canonical(of url: URL) -> String {
        let text = (url.host(percentEncoded: true) ?? "").lowercased()
        if isPlain(text) { return text }
        guard let host = URLParts(url)?.host, host.utf8.allSatisfy({ isOfName($0) || $0 == colon }) else { return text }
        return host
    }

    /// Whether a host has one spelling beside its case. The last label of an address in digits begins with one.
    private static func isPlain(_ host: String) -> Bool {
        guard let last = host.utf8.last, last != dot, host.utf8.allSatisfy(isOfName),
            let first = host.utf8.split(separator: dot).last?.first
        else { return false }
        return isLetter(first)
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        isLetter(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || byte == dot
            || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }

    private static func isLetter(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) }

    private static let dot = UInt8(ascii: ".")
    /// Only of IPv6 addresses.
    private static let colon = UInt8(ascii: ":")
}
