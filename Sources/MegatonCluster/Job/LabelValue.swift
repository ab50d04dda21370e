internal import Foundation
internal import MegatonPipeline

/// A value of a job's labels, which a submitter wants to find again in the job's outcome. It is returned unchanged.
public enum LabelValue: Sendable, Hashable, Codable {
    case text(String)
    case integer(Int)
    case number(Double)
    case bool(Bool)

    /// - Throws: `DecodingError` for null, lists, objects, and numbers with more digits than 64 bits or a double can
    ///   hold.
    public init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if let bool = try? value.decode(Bool.self) {
            self = .bool(bool)
        } else if let text = try? value.decode(String.self) {
            self = .text(text)
        } else if let integer = try? value.decode(Int.self) {
            self = .integer(integer)
        } else if let number = try? value.decode(Double.self) {
            // Beyond the range of Decimal there is nothing to compare with, and such numbers have few digits.
            if let exact = try? value.decode(Decimal.self), Decimal(string: "\(number)") != exact {
                throw FieldProblem.error(at: decoder.codingPath, "is a number with too many digits; write it as a text")
            }
            self = .number(number)
        } else {
            let shown = FieldProblem.value(of: decoder)
            throw FieldProblem.error(
                at: decoder.codingPath,
                "is \(shown); allowed are texts, numbers, true and false"
            )
        }
    }

    /// The value as a text without quotes.
    package var text: String {
        switch self {
        case .text(let text): text
        case .integer(let integer): String(integer)
        case .number(let number): String(number)
        case .bool(let bool): String(bool)
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var value = encoder.singleValueContainer()
        switch self {
        case .text(let text): try value.encode(text)
        case .integer(let integer): try value.encode(integer)
        case .number(let number): try value.encode(number)
        case .bool(let bool): try value.encode(bool)
        }
    }
}

extension LabelValue: PlainValue {
    func write(to json: inout PlainJSON) {
        switch self {
        case .text(let text): json.string(text)
        case .integer(let integer): json.number(integer)
        case .number(let number): json.number(number)
        case .bool(let bool): json.bool(bool)
        }
    }

    /// Reads a text, an integer, true or false. Other numbers are left to the decoder.
    static func read(_ reader: inout PlainJSONReader) -> LabelValue? {
        if let text = reader.string() { return .text(text) }
        if let bool = reader.bool() { return .bool(bool) }
        return reader.int().map { .integer($0) }
    }
}

extension Job {
    /// A submitter's notes on a job.
    public typealias Labels = [String: LabelValue]

    /// Maximum number of bytes of the labels' JSON.
    public static let maximumLabels = 1024

    /// Bytes of the labels' JSON, about; counting is faster than encoding.
    static func size(_ labels: Labels?) -> Int {
        (labels ?? [:]).reduce(0) { sum, label in
            let value = if case .text(let text) = label.value { text.utf8.count } else { 8 }
            return sum + label.key.utf8.count + value + 6
        }
    }

    /// Bytes of the labels' JSON, as the limit counts them.
    package static func encodedSize(_ labels: Labels) -> Int {
        // Counting is faster than encoding, and the sum cannot overflow.
        let texts = labels.reduce(0) { $0 + $1.key.utf8.count }
        return texts > maximumLabels ? texts : json(of: labels).count
    }

    static func text(of labels: Labels) -> String { String(decoding: json(of: labels), as: UTF8.self) }

    /// The JSON of labels, with sorted names.
    static func json(of labels: Labels) -> Data {
        var json = PlainJSON(capacity: 256)
        labels.write(to: &json)
        return json.isPlain ? json.data : WireJSON.data(labels)
    }

    /// The first problem of the labels; nil if there is none.
    static func problem(_ labels: Labels) -> FieldProblem? {
        let size = encodedSize(labels)
        if size <= maximumLabels { return nil }
        return FieldProblem("labels", "has \(size) bytes of JSON; allowed are \(maximumLabels)")
    }
}
