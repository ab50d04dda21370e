/// The part of a body that a header `Range` asks for (RFC 9110 section 14).
enum ByteRange: Equatable {
    /// The whole body: there is no range, or one that a server may ignore, such as several ones.
    case whole
    case part(Range<Int>)
    /// No byte of the body is in the range.
    case unsatisfiable

    /// - Parameters:
    ///   - value: the header; nil without it.
    ///   - count: bytes of the body.
    init(_ value: String?, of count: Int) {
        let unit = "bytes="
        self = .whole
        guard let value, value.lowercased().hasPrefix(unit) else { return }
        let range = value.dropFirst(unit.count)
        // Several ranges would need a body of several parts: RFC 9110 section 14.2 allows to ignore them.
        guard !range.contains(","), let dash = range.firstIndex(of: "-") else { return }
        let (first, last) = (range[..<dash], range[range.index(after: dash)...])
        guard let start = Self.number(first), let end = Self.number(last) else { return }
        switch (start, end) {
        case (nil, nil): return
        case (nil, let length?): self = length > 0 && count > 0 ? .part(max(0, count - length)..<count) : .unsatisfiable
        case (let start?, nil): self = start < count ? .part(start..<count) : .unsatisfiable
        case (let start?, let end?):
            if end < start { return }
            self = start < count ? .part(start..<min(count, end + 1)) : .unsatisfiable
        }
    }

    /// A position: nil within if the text is empty, and nil if it is no number.
    private static func number(_ text: Substring) -> Int?? {
        if text.isEmpty { return .some(nil) }
        guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        // With more digits it is beyond the end of any body. One is added to it.
        let most = Int.max - 1
        return .some(min(Int(text) ?? most, most))
    }
}
