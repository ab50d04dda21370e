internal import Foundation

/// Writes the JSON of small values that are made for each job, in the format of `WireJSON`. Foundation's encoder first
/// builds a tree of boxes and dictionaries, which takes as long as fetching the image.
///
/// It handles texts without control characters and finite numbers; for any other value, `isPlain` is false and the
/// caller must use the encoder.
struct PlainJSON {
    /// Whether all values could be written.
    private(set) var isPlain = true
    private var bytes: [UInt8] = []
    private var isFirst = true

    init(capacity: Int) { bytes.reserveCapacity(capacity) }

    var data: Data { Data(bytes) }

    mutating func open(_ bracket: Unicode.Scalar) {
        bytes.append(UInt8(ascii: bracket))
        isFirst = true
    }

    mutating func close(_ bracket: Unicode.Scalar) {
        bytes.append(UInt8(ascii: bracket))
        isFirst = false
    }

    /// Writes the separator between two values.
    mutating func next() {
        if !isFirst { bytes.append(UInt8(ascii: ",")) }
        isFirst = false
    }

    /// Writes the name of the next value.
    mutating func name(_ name: String) {
        next()
        string(name)
        bytes.append(UInt8(ascii: ":"))
    }

    mutating func field(_ name: String, _ value: String?) {
        guard let value else { return }
        self.name(name)
        string(value)
    }

    mutating func field(_ name: String, _ value: Int?) {
        guard let value else { return }
        self.name(name)
        raw(String(value))
    }

    mutating func field(_ name: String, _ value: Double?) {
        guard let value else { return }
        self.name(name)
        let digits = value.description
        raw(digits.hasSuffix(".0") ? String(digits.dropLast(2)) : digits)
        if !value.isFinite { isPlain = false }
    }

    mutating func field(_ name: String, _ value: [String: String]?) {
        guard let value else { return }
        self.name(name)
        open("{")
        for (key, text) in value.sorted(by: { $0.key < $1.key }) { field(key, text) }
        close("}")
    }

    mutating func field(_ name: String, _ value: [String]?) {
        guard let value else { return }
        self.name(name)
        open("[")
        for text in value {
            next()
            string(text)
        }
        close("]")
    }

    private mutating func string(_ text: String) {
        let (quote, escape) = (UInt8(ascii: "\""), UInt8(ascii: "\\"))
        bytes.append(quote)
        for byte in text.utf8 {
            if byte == quote || byte == escape { bytes.append(escape) }
            if byte < 0x20 || byte == 0x7F { isPlain = false }
            bytes.append(byte)
        }
        bytes.append(quote)
    }

    private mutating func raw(_ digits: String) { bytes.append(contentsOf: digits.utf8) }
}
