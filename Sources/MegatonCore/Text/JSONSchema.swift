/// The parts of a JSON Schema (draft 2020-12) that describe options.
package struct JSONSchema: Codable, Sendable, Equatable {
    package enum Kind: String, Codable, Sendable {
        case object, string, integer, number, boolean
    }

    /// The address of the draft, for the schema of a whole document.
    package var draft: String?
    var type: Kind?
    package var description: String?
    /// The allowed words of a string.
    var words: [String]?
    var pattern: String?
    var minimum: Double?
    var maximum: Double?
    var properties: [String: JSONSchema]?
    var required: [String]?
    package var anyOf: [JSONSchema]?
    var additionalProperties: Bool?

    package init(
        _ type: Kind?,
        words: [String]? = nil,
        pattern: String? = nil,
        range: ClosedRange<Double>? = nil,
        properties: [String: JSONSchema]? = nil,
        required: [String]? = nil
    ) {
        self.type = type
        self.words = words
        self.pattern = pattern
        minimum = range?.lowerBound
        maximum = range?.upperBound
        self.properties = properties
        self.required = required
        additionalProperties = properties == nil ? nil : false
    }

    private enum CodingKeys: String, CodingKey {
        case draft = "$schema"
        case type, description
        case words = "enum"
        case pattern, minimum, maximum, properties, required, anyOf, additionalProperties
    }
}
