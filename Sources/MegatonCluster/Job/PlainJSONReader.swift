internal import Foundation

/// Reads the JSON of small values that come with each job, if it is plain: its texts have no escapes except those of
/// `"`, `\` and `/`, and no field occurs twice.
///
/// It takes 3 µs for a job or the header of a cached entry; Foundation's decoder, which boxes every value, takes 11 µs.
///
/// Each method returns nil (or false) if it finds anything else, which may still be valid: the caller then uses the
/// decoder, which also reports the problem and its place.
struct PlainJSONReader {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    private static let maximumFields = 64

    private init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Calls `body` to read one value; nil if anything follows the value.
    static func read<Value>(_ json: Data, _ body: (inout PlainJSONReader) -> Value?) -> Value? {
        json.withUnsafeBytes { bytes in
            var reader = PlainJSONReader(bytes)
            guard let value = body(&reader) else { return nil }
            reader.skipSpace()
            return reader.position == bytes.count ? value : nil
        }
    }

    /// - Parameter field: called at the value of each field; returns whether it could read the value.
    mutating func object(_ field: (inout PlainJSONReader, _ name: String) -> Bool) -> Bool {
        guard take("{") else { return false }
        if take("}") { return true }
        var names: [String] = []
        repeat {
            // Each name is compared with all others. The decoder, which reads larger objects, has a table of them.
            guard names.count < Self.maximumFields, let name = string(), !names.contains(name), take(":"),
                field(&self, name)
            else { return false }
            names.append(name)
        } while take(",")
        return take("}")
    }

    /// As ``object(_:)``, of an object that has all of these fields.
    mutating func object(
        with required: Set<String>,
        _ field: (inout PlainJSONReader, _ name: String) -> Bool
    ) -> Bool {
        // No field occurs twice.
        var found = 0
        let isRead = object { reader, name in
            if required.contains(name) { found += 1 }
            return field(&reader, name)
        }
        return isRead && found == required.count
    }

    /// Reads the fields of an object as raw names and values of any kind.
    ///
    /// - Parameter field: called for each complete field, even if the object is incomplete.
    /// - Returns: whether the object is complete. Its values need not be valid.
    mutating func members(_ field: (_ name: Data, _ value: Data) -> Void) -> Bool {
        guard take("{") else { return false }
        repeat {
            // Foundation's decoder accepts a comma before the end, too.
            if take("}") { return true }
            skipSpace()
            let start = position
            guard position < bytes.count, bytes[position] == UInt8(ascii: "\""), skipString() else { return false }
            let name = Data(bytes[start..<position])
            guard take(":") else { return false }
            skipSpace()
            let valueStart = position
            guard skipValue() else { return false }
            let value = Data(bytes[valueStart..<position])
            skipSpace()
            // At the end of the input, a number may be cut off.
            guard position < bytes.count else { return false }
            field(name, value)
        } while take(",")
        return take("}")
    }

    /// Reads the elements of an array as raw values of any kind.
    ///
    /// - Parameter element: called for each element; its value need not be valid.
    /// - Returns: whether the array is complete.
    mutating func elements(_ element: (_ value: Data) -> Void) -> Bool {
        guard take("[") else { return false }
        if take("]") { return true }
        repeat {
            skipSpace()
            let start = position
            guard skipValue() else { return false }
            element(Data(bytes[start..<position]))
        } while take(",")
        return take("]")
    }

    /// Skips a text by searches for its end and for escapes before that, in linear time.
    private mutating func skipString() -> Bool {
        position += 1
        var end = next("\"", from: position, to: bytes.count)
        while let quote = end {
            guard let escape = next("\\", from: position, to: quote) else {
                position = quote + 1
                return true
            }
            position = escape + 2
            // The quote was escaped.
            if position > quote { end = next("\"", from: position, to: bytes.count) }
        }
        position = bytes.count
        return false
    }

    /// Place of the next mark in a part of the bytes.
    private func next(_ mark: Unicode.Scalar, from start: Int, to end: Int) -> Int? {
        guard start < end, let first = bytes.baseAddress else { return nil }
        return memchr(first + start, Int32(mark.value), end - start).map { first.distance(to: UnsafeRawPointer($0)) }
    }

    private mutating func skipValue() -> Bool {
        var depth = 0
        let start = position
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                guard skipString() else { return false }
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                position += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                if depth == 0 { return position > start }
                depth -= 1
                position += 1
            case UInt8(ascii: ","), 0x20, 0x0A, 0x0D, 0x09:
                if depth == 0 { return position > start }
                position += 1
                continue
            case let byte where depth > 0 || isOfWord(byte):
                position += 1
                if depth == 0, position < bytes.count, isOfWord(bytes[position]) { continue }
            default: return false
            }
            if depth == 0 { return true }
        }
        return false
    }

    /// Whether the byte can be part of a number, or of true, false and null.
    private func isOfWord(_ byte: UInt8) -> Bool { isOfNumber(byte) || "truefalsnl".utf8.contains(byte) }

    /// Reads a text. If it cannot, it stays where it is: the caller may try another kind of value there.
    mutating func string() -> String? {
        let start = position
        if let text = quotedText() { return text }
        position = start
        return nil
    }

    private mutating func quotedText() -> String? {
        guard take("\"") else { return nil }
        let start = position
        guard let end = next("\"", from: start, to: bytes.count) else { return nil }
        if isPlain(bytes[start..<end]) {
            position = end + 1
            return String(validating: bytes[start..<end], as: UTF8.self)
        }
        guard let escape = next("\\", from: start, to: end), isPlain(bytes[start..<escape]) else { return nil }
        position = escape
        return escapedString(from: start)
    }

    /// Whether a text has neither escapes nor control characters. The loop has no early exit, so that it is vectorized.
    private func isPlain(_ text: Slice<UnsafeRawBufferPointer>) -> Bool {
        var odd: UInt8 = 0
        for byte in UnsafeRawBufferPointer(rebasing: text) {
            odd |= byte < 0x20 || byte == UInt8(ascii: "\\") ? 1 : 0
        }
        return odd == 0
    }

    /// Entity tags include their quotes, so most stored headers have a text with escapes.
    private mutating func escapedString(from start: Int) -> String? {
        var text = Array(bytes[start..<position])
        while position < bytes.count, case let byte = bytes[position], byte >= 0x20 {
            position += 1
            if byte == UInt8(ascii: "\"") { return String(validating: text, as: UTF8.self) }
            if byte == UInt8(ascii: "\\") {
                guard position < bytes.count, "\"\\/".utf8.contains(bytes[position]) else { return nil }
                text.append(bytes[position])
                position += 1
            } else {
                text.append(byte)
            }
        }
        return nil
    }

    mutating func bool() -> Bool? {
        skipSpace()
        for (word, value) in [("true", true), ("false", false)]
        where bytes[position...].starts(with: word.utf8) {
            position += word.utf8.count
            return value
        }
        return nil
    }

    /// Reads an integer of at most 18 digits, without a fraction or an exponent.
    mutating func int() -> Int? {
        skipSpace()
        let isNegative = takeAtOnce("-")
        let start = position
        var value = 0
        while let digit = digit() {
            guard position - start <= 18 else { return nil }
            value = value * 10 + digit
        }
        let isNumber = position - start == 1 || (position > start && bytes[start] != UInt8(ascii: "0"))
        guard isNumber, !goesOn else { return nil }
        return isNegative ? -value : value
    }

    /// Reads a number. Values that Swift rounds to infinity or zero are left to the decoder, which reports that they
    /// cannot be represented.
    mutating func double() -> Double? {
        skipSpace()
        let start = position
        _ = takeAtOnce("-")
        let whole = position
        guard takeDigits(), position - whole == 1 || bytes[whole] != UInt8(ascii: "0") else { return nil }
        if takeAtOnce(".") { guard takeDigits() else { return nil } }
        let digits = whole..<position
        if takeAtOnce("e") || takeAtOnce("E") {
            _ = takeAtOnce("+") || takeAtOnce("-")
            guard takeDigits() else { return nil }
        }
        guard !goesOn, let value = Double(String(decoding: bytes[start..<position], as: UTF8.self)) else { return nil }
        let isZero = bytes[digits].allSatisfy { $0 == UInt8(ascii: "0") || $0 == UInt8(ascii: ".") }
        return value.isNormal || isZero ? value : nil
    }

    mutating func strings() -> [String]? {
        var texts: [String] = []
        let isRead = list { reader in
            guard let text = reader.string() else { return false }
            texts.append(text)
            return true
        }
        return isRead ? texts : nil
    }

    /// - Parameter element: called at each element; returns whether it could read it.
    mutating func list(_ element: (inout PlainJSONReader) -> Bool) -> Bool {
        guard take("[") else { return false }
        if take("]") { return true }
        repeat {
            guard element(&self) else { return false }
        } while take(",")
        return take("]")
    }

    /// Raw bytes of an array with any elements, for another reader.
    mutating func array() -> Data? {
        skipSpace()
        guard position < bytes.count, bytes[position] == UInt8(ascii: "[") else { return nil }
        let start = position
        var depth = 0
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            case UInt8(ascii: "\""):
                guard string() != nil else { return nil }
                continue
            default: break
            }
            position += 1
            if depth == 0 { return Data(bytes[start..<position]) }
        }
        return nil
    }

    private mutating func skipSpace() {
        while position < bytes.count, case let byte = bytes[position],
            byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09
        {
            position += 1
        }
    }

    private mutating func take(_ mark: Unicode.Scalar) -> Bool {
        skipSpace()
        return takeAtOnce(mark)
    }

    private mutating func takeAtOnce(_ mark: Unicode.Scalar) -> Bool {
        guard position < bytes.count, bytes[position] == UInt8(ascii: mark) else { return false }
        position += 1
        return true
    }

    private mutating func digit() -> Int? {
        guard position < bytes.count, case let byte = bytes[position], 0x30...0x39 ~= byte else { return nil }
        position += 1
        return Int(byte) - 0x30
    }

    /// Skips digits; false if there are none.
    private mutating func takeDigits() -> Bool {
        let start = position
        while digit() != nil {}
        return position > start
    }

    /// Whether the number continues in a form that integers do not have.
    private var goesOn: Bool { position < bytes.count && isOfNumber(bytes[position]) }

    private func isOfNumber(_ byte: UInt8) -> Bool {
        0x30...0x39 ~= byte || "+-.eE".utf8.contains(byte)
    }
}

/// Keeps a value that was read.
///
/// - Returns: whether there is one.
func keep<Value>(_ value: Value?, in field: inout Value) -> Bool {
    guard let value else { return false }
    field = value
    return true
}

/// Keeps a value that was read, or nil.
///
/// - Returns: whether there is one.
func keep<Value>(_ value: Value?, in field: inout Value?) -> Bool {
    field = value
    return value != nil
}
