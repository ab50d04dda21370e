/// The parts of a JSON Schema (draft 2020-12) that describe options.
package struct JSONSchema: Codable, Sendable, Equatable {
    package enum Kind: String, Codable, Sendable {
        case object, array, string, integer, number, boolean
    }

    /// The kinds of a value: in JSON a name, or a list of several.
    struct Kinds: Codable, Sendable, Equatable {
        let all: [Kind]

        init?(_ kinds: [Kind]) {
            if kinds.isEmpty { return nil }
            all = kinds
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            all = try (try? container.decode([Kind].self)) ?? [container.decode(Kind.self)]
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            if all.count == 1 { try container.encode(all[0]) } else { try container.encode(all) }
        }
    }

    /// An allowed value.
    package enum Word: Codable, Sendable, Equatable {
        case text(String)
        case number(Int)

        package init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            self = try (try? container.decode(String.self)).map { .text($0) } ?? .number(container.decode(Int.self))
        }

        package func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .number(let number): try container.encode(number)
            }
        }
    }

    /// The allowed texts; empty if any is allowed.
    package var allowedTexts: [String] {
        (words ?? []).compactMap { word in
            if case .text(let text) = word { text } else { nil }
        }
    }

    /// The address of the draft, for the schema of a whole document.
    package var draft: String?
    var type: Kinds?
    package var description: String?
    /// The allowed values of a string or a number.
    var words: [Word]?
    var pattern: String?
    var minimum: Double?
    var maximum: Double?
    var properties: [String: JSONSchema]?
    var required: [String]?
    package var anyOf: [JSONSchema]?
    /// The items of a list, in their order.
    package var prefixItems: [JSONSchema]?
    package var minItems: Int?
    package var maxItems: Int?
    var additionalProperties: Bool?

    /// - Parameter kinds: any of them; none allows every value.
    package init(
        _ kinds: Kind...,
        pattern: String? = nil,
        range: ClosedRange<Double>? = nil,
        properties: [String: JSONSchema]? = nil,
        required: [String]? = nil
    ) {
        self.type = Kinds(kinds)
        self.pattern = pattern
        minimum = range?.lowerBound
        maximum = range?.upperBound
        self.properties = properties
        self.required = required
        additionalProperties = properties == nil ? nil : false
    }

    /// A schema of some words. Words of digits may be numbers, too.
    package init(words: [String]) {
        let numbers = words.compactMap { Int($0) }.map(Word.number)
        self = numbers.isEmpty ? JSONSchema(.string) : JSONSchema(.string, .integer)
        self.words = words.map(Word.text) + numbers
    }

    private enum CodingKeys: String, CodingKey {
        case draft = "$schema"
        case type, description
        case words = "enum"
        case pattern, minimum, maximum, properties, required, anyOf, prefixItems, minItems, maxItems
        case additionalProperties
    }
}
