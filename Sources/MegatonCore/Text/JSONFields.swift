package import Foundation

/// A JSON value whose field names stay as they are: an encoder that changes keys (`keyEncodingStrategy`) leaves those
/// of dictionaries alone. For parts that have names of their own wherever they are shown.
package enum JSONFields: Codable, Sendable {
    case null
    case bool(Bool)
    case integer(Int)
    case number(Double)
    case text(String)
    case list([JSONFields])
    case object([String: JSONFields])

    /// - Throws: `DecodingError` if the data is not JSON.
    package init(json: Data) throws { self = try JSONDecoder().decode(Self.self, from: json) }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int.self) {
            self = .integer(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .text(value)
        } else if let value = try? container.decode([JSONFields].self) {
            self = .list(value)
        } else {
            self = .object(try container.decode([String: JSONFields].self))
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .text(let value): try container.encode(value)
        case .list(let value): try container.encode(value)
        case .object(let value): try container.encode(value)
        }
    }
}
