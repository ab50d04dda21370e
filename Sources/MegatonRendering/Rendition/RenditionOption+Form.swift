extension RenditionOption {
    /// How the values of an option are read and written, in JSON and as text.
    struct Form<Value: Equatable & Sendable>: Sendable {
        let kind: Kind
        let schema: JSONSchema
        /// Nil if the field is missing or null.
        let decode: @Sendable (Fields, AnyCodingKey) throws -> Value?
        let encode: @Sendable (Value, inout WrittenFields, AnyCodingKey) throws -> Void
        /// Nil if the text is not a value.
        let parse: @Sendable (String) -> Value?
        /// The rule that a text breaks which is not a value, in the words that follow the option's name.
        let rule: @Sendable (String) -> String
        /// The value in an identity.
        var text: @Sendable (Value) -> String = { "\($0)" }
        /// A value for the help of `--rendition`, if its form is not obvious.
        var example: String?
    }
}

// Each type calls its own `encode` and `decodeIfPresent`: the generic ones cost twice as much.

extension RenditionOption.Form<String> {
    /// - Parameter allowed: The allowed values, in the words that follow "allowed" in messages.
    static func text(pattern: String, allowed: String) -> Self {
        Self(
            kind: .text,
            schema: JSONSchema(.string, pattern: pattern),
            decode: { fields, key in
                do {
                    return try fields.decodeIfPresent(String.self, forKey: key)
                } catch {
                    return try fields.read(String.self, key, allowed: allowed)
                }
            },
            encode: { value, fields, key in try fields.encode(value, forKey: key) },
            parse: { $0 },
            rule: { _ in allowed }
        )
    }
}

extension RenditionOption.Form<Int> {
    /// - Parameters:
    ///   - range: for the schema; it is not validated here.
    ///   - detail: Follows "are whole numbers" in messages.
    static func whole(_ range: ClosedRange<Int>, _ detail: String = "") -> Self {
        let allowed = "are whole numbers\(detail)"
        return Self(
            kind: .whole,
            schema: JSONSchema(.integer, range: Double(range.lowerBound)...Double(range.upperBound)),
            decode: { fields, key in
                do {
                    return try fields.decodeIfPresent(Int.self, forKey: key)
                } catch {
                    return try fields.read(Int.self, key, allowed: allowed)
                }
            },
            encode: { value, fields, key in try fields.encode(value, forKey: key) },
            parse: { Int($0) },
            rule: { _ in "must be a number" }
        )
    }
}

extension RenditionOption.Form<Double> {
    /// - Parameters:
    ///   - range: for the schema; it is not validated here.
    ///   - allowed: The allowed values, in the words that follow "allowed" in messages.
    static func number(_ range: ClosedRange<Double>, allowed: String) -> Self {
        Self(
            kind: .number,
            schema: JSONSchema(.number, range: range),
            decode: { fields, key in
                do {
                    return try fields.decodeIfPresent(Double.self, forKey: key)
                } catch {
                    return try fields.read(Double.self, key, allowed: allowed)
                }
            },
            encode: { value, fields, key in try fields.encode(value, forKey: key) },
            parse: { Double($0) },
            rule: { _ in "must be a number" }
        )
    }
}

extension RenditionOption.Form<Bool> {
    static var flag: Self {
        Self(
            kind: .flag,
            schema: JSONSchema(.boolean),
            decode: { fields, key in
                do {
                    return try fields.decodeIfPresent(Bool.self, forKey: key)
                } catch {
                    return try fields.read(Bool.self, key, allowed: "are true and false")
                }
            },
            encode: { value, fields, key in try fields.encode(value, forKey: key) },
            parse: { Bool($0) },
            rule: { _ in "must be true or false" },
            example: "true"
        )
    }
}

extension RenditionOption.Form where Value: WordChoice {
    static var word: Self {
        Self(
            kind: .text,
            schema: JSONSchema(words: Value.allCases.map(\.rawValue) + Value.aliases.keys.sorted()),
            decode: { fields, key in
                do {
                    guard let word = try fields.decodeIfPresent(String.self, forKey: key) else { return nil }
                    if let value = Value(word: word) { return value }
                } catch {}  // Reported below: the value's own decoder names the allowed words.
                return try fields.decode(Value.self, forKey: key)
            },
            encode: { value, fields, key in try fields.encode(value.rawValue, forKey: key) },
            parse: { Value(word: $0) },
            rule: { text in
                let near = Value.suggestion(for: text).map { " (did you mean \($0)?)" } ?? ""
                return "must be one of \(Value.allowedWords)\(near)"
            },
            text: { $0.rawValue }
        )
    }
}

extension RenditionOption.Form<Color> {
    static var color: Self {
        let allowed = "are colors such as \"#ffffff\" and \"#fff\""
        return Self(
            kind: .text,
            schema: JSONSchema(.string, pattern: "^#?([0-9A-Fa-f]{3}){1,2}$"),
            decode: { fields, key in
                guard let text = try fields.read(String.self, key, allowed: allowed) else { return nil }
                if let color = Color(hex: text) { return color }
                throw FieldProblem.error(
                    at: fields.codingPath + [key],
                    "is \(FieldProblem.quoted(text)); allowed \(allowed)"
                )
            },
            encode: { color, fields, key in try fields.encode(color.description, forKey: key) },
            parse: { Color(hex: $0) },
            rule: { _ in "must look like #ffffff, ffffff, #fff or fff" }
        )
    }
}

extension RenditionOption.Form<Rendition.FocalPoint> {
    /// As text, a colon may replace the comma, which ends a field of `--rendition`.
    static var point: Self {
        let part = JSONSchema(.number, range: 0...1)
        return Self(
            kind: .text,
            schema: JSONSchema(.object, properties: ["x": part, "y": part], required: ["x", "y"]),
            // The value's own decoder names the allowed values.
            decode: { fields, key in try fields.decodeIfPresent(Rendition.FocalPoint.self, forKey: key) },
            encode: { point, fields, key in try fields.encode(point, forKey: key) },
            parse: { text in
                let parts = text.split(omittingEmptySubsequences: false) { $0 == "," || $0 == ":" }
                guard parts.count == 2, let x = Double(parts[0]), let y = Double(parts[1]) else { return nil }
                return Rendition.FocalPoint(x: x, y: y)
            },
            rule: { _ in
                "must look like 0.5,0.3 (0.5:0.3 in --rendition): fractions of width and height from the top left"
            },
            text: { "\($0.x),\($0.y)" },
            example: "0.5:0.3"
        )
    }
}
