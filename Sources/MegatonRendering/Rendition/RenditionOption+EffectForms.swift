internal import Foundation

// Forms of options that are more than one number or word.

extension RenditionOption.Form<Double?> {
    /// A number, true for a usual one, or false for none.
    ///
    /// - Parameters:
    ///   - usual: The number that true stands for.
    ///   - range: for the schema; it is not validated here.
    ///   - allowed: The allowed values, in the words that follow "allowed" in messages.
    static func switched(_ usual: Double, _ range: ClosedRange<Double>, allowed: String) -> Self {
        Self(
            kind: .text,
            schema: JSONSchema(.number, .boolean, range: range),
            decode: { fields, key in
                if let isOn = try? fields.decodeIfPresent(Bool.self, forKey: key) { return .some(isOn ? usual : nil) }
                return try fields.read(Double.self, key, allowed: allowed).map(Optional.some)
            },
            encode: { value, fields, key in try fields.encodeIfPresent(value, forKey: key) },
            parse: { text in
                if let isOn = Bool(text) { return .some(isOn ? usual : nil) }
                return Double(text).map(Optional.some)
            },
            rule: { _ in "must be true, false or a number" },
            text: { $0.map { "\($0)" } ?? "" },
            example: "true"
        )
    }
}

extension RenditionOption.Form<Int?> {
    /// A whole number, true for a usual one, or false for none; see the form above.
    static func switched(_ usual: Int, _ range: ClosedRange<Int>, allowed: String) -> Self {
        Self(
            kind: .text,
            schema: JSONSchema(
                .integer,
                .boolean,
                range: Double(range.lowerBound)...Double(range.upperBound)
            ),
            decode: { fields, key in
                if let isOn = try? fields.decodeIfPresent(Bool.self, forKey: key) { return .some(isOn ? usual : nil) }
                return try fields.read(Int.self, key, allowed: allowed).map(Optional.some)
            },
            encode: { value, fields, key in try fields.encodeIfPresent(value, forKey: key) },
            parse: { text in
                if let isOn = Bool(text) { return .some(isOn ? usual : nil) }
                return Int(text).map(Optional.some)
            },
            rule: { _ in "must be true, false or a whole number" },
            text: { $0.map { "\($0)" } ?? "" },
            example: "true"
        )
    }
}

extension RenditionOption.Form<Rendition.Padding> {
    /// As text, colons may replace the commas, which end a field of `--rendition`.
    static var padding: Self {
        let side = JSONSchema(.integer, range: 0...Double(Rendition.maximumSide))
        var schema = JSONSchema(.integer, .array, range: 0...Double(Rendition.maximumSide))
        schema.prefixItems = [side, side, side, side]
        (schema.minItems, schema.maxItems) = (4, 4)
        return Self(
            kind: .text,
            schema: schema,
            // The value's own decoder names the allowed values.
            decode: { fields, key in try fields.decodeIfPresent(Rendition.Padding.self, forKey: key) },
            encode: { padding, fields, key in try fields.encode(padding, forKey: key) },
            parse: { text in
                let parts = text.split(omittingEmptySubsequences: false) { $0 == "," || $0 == ":" }
                let numbers = parts.compactMap { Int($0) }
                return numbers.count == parts.count ? Rendition.Padding(numbers) : nil
            },
            rule: { _ in
                "must be pixels such as 10, or 10,20,10,20 (10:20:10:20 in --rendition): top, right, bottom, left"
            },
            text: { $0.numbers.map(String.init).joined(separator: ",") },
            example: "10:20:10:20"
        )
    }
}

extension RenditionOption.Form<Rendition.Watermark> {
    /// As text, the JSON object, or the text of a watermark with the defaults.
    static var watermark: Self {
        Self(
            kind: .text,
            schema: Rendition.Watermark.jsonSchema,
            // The value's own decoder names the allowed values.
            decode: { fields, key in try fields.decodeIfPresent(Rendition.Watermark.self, forKey: key) },
            encode: { watermark, fields, key in try fields.encode(watermark, forKey: key) },
            parse: { text in
                guard text.hasPrefix("{") else { return Rendition.Watermark(.text(text)) }
                // `rule` reports the reason.
                return try? JSONDecoder().decode(Rendition.Watermark.self, from: Data(text.utf8))
            },
            rule: { text in
                do {
                    _ = try JSONDecoder().decode(Rendition.Watermark.self, from: Data(text.utf8))
                    return "must be a text or a JSON object"
                } catch {
                    let reason = (error as? DecodingError)?.fieldProblem?.description ?? "it is not valid JSON"
                    return #"must be a text or a JSON object such as {"text": "© Me", "opacity": 0.5} ("# + reason + ")"
                }
            },
            text: { $0.identity },
            example: #"{"text":"© Me","opacity":0.5}"#
        )
    }
}
