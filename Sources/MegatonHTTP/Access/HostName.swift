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

    /// Whether a host has one spelling beside its case: its last label begins with a letter, and not with a digit as
    /// that of any numeric form of an address, or it is an address in the usual form.
    private static func isPlain(_ host: String) -> Bool {
        guard let last = host.utf8.last, last != dot, host.utf8.allSatisfy(isOfName) else { return false }
        let beginning = host.utf8.lastIndex(of: dot).map { host.utf8.index(after: $0) } ?? host.startIndex
        return isLetter(host.utf8[beginning]) || isDottedAddress(host)
    }

    /// Whether a host is four decimal numbers up to 255 without leading zeros, which would be octal.
    private static func isDottedAddress(_ host: String) -> Bool {
        var (numbers, number, digits) = (0, 0, 0)
        for byte in host.utf8 {
            if byte == dot {
                guard digits > 0 else { return false }
                (numbers, number, digits) = (numbers + 1, 0, 0)
            } else {
                guard isDigit(byte), digits == 0 || number > 0 else { return false }
                (number, digits) = (number * 10 + Int(byte - zero), digits + 1)
                guard number <= 255 else { return false }
            }
        }
        return numbers == 3 && digits > 0
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        isLetter(byte) || isDigit(byte) || byte == dot
            || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }

    private static func isLetter(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) }

    private static func isDigit(_ byte: UInt8) -> Bool { (zero...UInt8(ascii: "9")).contains(byte) }

    private static let zero = UInt8(ascii: "0")
    private static let dot = UInt8(ascii: ".")
    /// Only of IPv6 addresses.
    private static let colon = UInt8(ascii: ":")
}
