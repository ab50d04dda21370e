/// Byte range of a partial response (RFC 9110 section 14.4): `bytes 100-199/200`.
package struct ContentRange: Equatable {
    /// Offset of the first byte; the body starts at 0.
    let first: Int
    /// Offset of the last byte.
    let last: Int
    /// Size of the whole body, bytes.
    let total: Int

    /// - Returns: nil if the value is malformed or contradicts itself, has another unit, or an unknown total (`*`).
    init?(_ value: String?) {
        guard let words = value?.split(separator: " "), words.count == 2, words[0].lowercased() == "bytes" else {
            return nil
        }
        let halves = words[1].split(separator: "/", omittingEmptySubsequences: false)
        guard halves.count == 2, let total = Self.number(halves[1]) else { return nil }
        let ends = halves[0].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.number(ends[0]), let last = Self.number(ends[1]), first <= last,
            last < total
        else { return nil }
        self.first = first
        self.last = last
        self.total = total
    }

    /// Parses ASCII digits and nothing else.
    package static func number(_ text: Substring) -> Int? {
        text.utf8.allSatisfy { (48...57).contains($0) } ? Int(text) : nil
    }
}
