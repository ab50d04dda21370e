package import Foundation

/// Times as in RFC 3339, such as `2027-01-31T08:00:00Z`; an offset may lack its colon or minutes, as in ISO 8601.
package enum RFC3339 {
    /// The time that a text means; nil if it is none, has no zone, or its day does not exist.
    package static func date(_ text: String) -> Date? {
        // The parser ignores further characters behind a time.
        guard isZone(text.utf8.dropFirst(19)) else { return nil }
        let whole = Date.ISO8601FormatStyle()
        // The parser takes 30 February for 2 March. The local time, as if it were that of UTC, must come back.
        let local = text.prefix(19)
        guard let day = try? whole.parse(local + "Z"), whole.format(day).prefix(19) == local else { return nil }
        return (try? whole.parse(text)) ?? (try? Date.ISO8601FormatStyle(includingFractionalSeconds: true).parse(text))
    }

    /// Whether bytes are a zone, with a fraction of the second before it or without.
    private static func isZone(_ text: Substring.UTF8View) -> Bool {
        var rest = Array(text)
        if rest.first == UInt8(ascii: ".") {
            let fraction = rest.dropFirst().prefix(while: isDigit)
            if fraction.isEmpty { return false }
            rest.removeFirst(1 + fraction.count)
        }
        guard let first = rest.first else { return false }
        if first == UInt8(ascii: "Z") { return rest.count == 1 }
        guard first == UInt8(ascii: "+") || first == UInt8(ascii: "-") else { return false }
        if rest.count == 6, rest[3] == UInt8(ascii: ":") { rest.remove(at: 3) }
        return (rest.count == 3 || rest.count == 5) && rest.dropFirst().allSatisfy(isDigit)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
}
