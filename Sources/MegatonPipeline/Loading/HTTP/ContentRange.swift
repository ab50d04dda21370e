/// Which bytes a part is (RFC 9110 section 14.4): `bytes 100-199/200`.
struct ContentRange: Equatable {
    /// Of the first byte; the body begins at 0.
    let first: Int
    /// Of the last byte.
    let last: Int
    /// Bytes of the whole body.
    let total: Int

    /// - Returns: nil also for other units, for a total that is not told (`*`) and for what contradicts itself.
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

    /// Digits and nothing else.
    static func number(_ text: Substring) -> Int? {
        text.utf8.allSatisfy { (48...57).contains($0) } ? Int(text) : nil
    }
}
