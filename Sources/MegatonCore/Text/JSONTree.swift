/// A JSON value of unknown type, to be shown in a message.
package enum JSONTree: Decodable {
    case null
    case bool(Bool)
    case number(String)
    case text(String)
    case list
    case object
    /// E.g. a string with half a surrogate pair.
    case unreadable

    package init(from decoder: any Decoder) throws {
        if (try? decoder.unkeyedContainer()) != nil {
            self = .list
            return
        }
        if (try? decoder.container(keyedBy: AnyCodingKey.self)) != nil {
            self = .object
            return
        }
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(String.self) {
            self = .text(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .number("\(value)")
        } else if let value = try? container.decode(UInt64.self) {
            self = .number("\(value)")
        } else if let value = try? container.decode(Double.self) {
            self = .number("\(value)")
        } else {
            self = .unreadable
        }
    }

    /// The value in a message: short, on one line, without secrets.
    package var shown: String {
        switch self {
        case .null: "null"
        case .bool(let value): "\(value)"
        case .number(let digits): digits
        case .text(let text): FieldProblem.quoted(text)
        case .list: "a list"
        case .object: "an object"
        case .unreadable: "not readable"
        }
    }

    package static func shown(from decoder: any Decoder) -> JSONTree {
        // Any JSON decodes as a `JSONTree`; a value that still fails is shown as "…".
        (try? decoder.singleValueContainer().decode(JSONTree.self)) ?? .text("…")
    }
}

/// Any field name.
package struct AnyCodingKey: CodingKey {
    package let stringValue: String
    package var intValue: Int? { nil }

    package init(_ name: String) { stringValue = name }

    package init?(stringValue: String) { self.stringValue = stringValue }

    package init?(intValue: Int) { nil }
}
