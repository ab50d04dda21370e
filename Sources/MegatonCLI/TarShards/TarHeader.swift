import Foundation

/// The header of a member of a tar archive: a block of ustar (POSIX.1-1988), preceded by an extended header (pax,
/// POSIX.1-2001) if the name is long.
struct TarHeader: Equatable {
    var name: String
    /// Bytes of the content.
    var size: Int
    /// `0` for a file, `x` for an extended header.
    var type: UInt8

    static let block = 512
    static let file = UInt8(ascii: "0")
    private static let extended = UInt8(ascii: "x")
    /// Bytes of a name in a block of ustar.
    private static let longestName = 100
    /// Bytes of an extended header that this program writes: one name.
    private static let longestExtension = 4096
    /// Range of the checksum, which counts as spaces in its own sum.
    private static let checksum = 148..<156

    /// The length of a content with the padding behind it.
    static func padded(_ size: Int) -> Int { (size + block - 1) / block * block }

    init(name: String, size: Int, type: UInt8 = Self.file) {
        (self.name, self.size, self.type) = (name, size, type)
    }

    // MARK: - Writing

    /// The header as it is in the archive.
    ///
    /// - Parameter time: of the member's modification, seconds since 1970.
    func encoded(time: Int) -> Data {
        guard name.utf8.count > Self.longestName else { return Self.ustar(name, size, type, time) }
        let record = Self.record("path", name)
        var data = Self.ustar("PaxHeaders/\(name.utf8.count)", record.count, Self.extended, time)
        data += record
        data += Data(count: Self.padded(record.count) - record.count)
        // Readers without pax see the beginning of the name.
        return data + Self.ustar(name, size, type, time)
    }

    /// `LENGTH KEY=VALUE\n`, in which the length counts itself.
    private static func record(_ key: String, _ value: String) -> Data {
        let rest = " \(key)=\(value)\n"
        var length = rest.utf8.count
        while String(length).utf8.count + rest.utf8.count != length {
            length = String(length).utf8.count + rest.utf8.count
        }
        return Data("\(length)\(rest)".utf8)
    }

    private static func ustar(_ name: String, _ size: Int, _ type: UInt8, _ time: Int) -> Data {
        var bytes = [UInt8](repeating: 0, count: block)
        func put(_ text: String, at start: Int) {
            bytes.replaceSubrange(start..<start + text.utf8.count, with: text.utf8)
        }
        func octal(_ value: Int, digits: Int) -> String {
            let text = String(value, radix: 8)
            return String(repeating: "0", count: max(0, digits - text.count)) + text
        }
        bytes.replaceSubrange(0..<min(name.utf8.count, longestName), with: name.utf8.prefix(longestName))
        put("0000644", at: 100)
        put("0000000", at: 108)
        put("0000000", at: 116)
        put(octal(size, digits: 11), at: 124)
        put(octal(time, digits: 11), at: 136)
        bytes[156] = type
        put("ustar", at: 257)
        put("00", at: 263)
        put(octal(sum(bytes), digits: 6), at: checksum.lowerBound)
        bytes[checksum.upperBound - 1] = UInt8(ascii: " ")
        return Data(bytes)
    }

    private static func sum(_ bytes: [UInt8]) -> Int {
        bytes.enumerated().reduce(0) { $0 + (checksum.contains($1.offset) ? 32 : Int($1.element)) }
    }

    // MARK: - Reading

    /// Reads a block.
    ///
    /// - Returns: nil if the block is not a header whose checksum is right.
    private init?(block bytes: [UInt8]) {
        func number(_ range: Range<Int>) -> Int? {
            Int(String(decoding: bytes[range].prefix { (48..<56).contains($0) }, as: UTF8.self), radix: 8)
        }
        guard bytes.count == Self.block, let sum = number(Self.checksum), sum == Self.sum(bytes),
            let size = number(124..<136)
        else { return nil }
        name = String(decoding: bytes[0..<Self.longestName].prefix { $0 != 0 }, as: UTF8.self)
        self.size = size
        type = bytes[156]
    }

    /// Reads the next header with the extended header before it.
    ///
    /// - Parameter read: returns the next bytes of the archive; fewer than asked for at its end.
    /// - Returns: nil if the archive ends here, or has no whole header.
    static func next(_ read: (Int) throws -> Data) throws -> TarHeader? {
        guard let first = TarHeader(block: Array(try read(block))) else { return nil }
        guard first.type == extended else { return first }
        guard first.size <= longestExtension else { return nil }
        let content = try read(padded(first.size))
        guard content.count == padded(first.size), let name = path(in: content.prefix(first.size)),
            var header = TarHeader(block: Array(try read(block)))
        else { return nil }
        header.name = name
        return header
    }

    /// The name in an extended header as this program writes it: one record.
    private static func path(in content: Data) -> String? {
        let text = String(decoding: content, as: UTF8.self)
        guard let start = text.range(of: " path="), text.hasSuffix("\n"),
            Int(text[..<start.lowerBound]) == text.utf8.count
        else { return nil }
        return String(text[start.upperBound...].dropLast())
    }
}
