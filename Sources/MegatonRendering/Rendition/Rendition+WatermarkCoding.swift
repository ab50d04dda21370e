extension Rendition.Watermark: Codable {
    enum CodingKeys: String, CodingKey, CaseIterable {
        case text, image, position, opacity, scale, margin, x, y
    }

    /// - Throws: `DecodingError` with a sentence that names the field.
    public init(from decoder: any Decoder) throws {
        let fields = try decoder.fields(
            CodingKeys.self,
            isChecked: decoder.userInfo[.wasValidated] as? Bool == true,
            allowed: #"an object such as {"text": "© Me"}"#
        )
        let text = try fields.read(String.self, .text, allowed: "are texts of at most \(Self.maximumText) characters")
        let image = try fields.read(String.self, .image, allowed: Self.allowedImages)
        switch (text, image) {
        case (let text?, nil): self.init(.text(text))
        case (nil, let image?): self.init(.image(image))
        case (nil, nil): throw FieldProblem.error(at: decoder.codingPath, "needs a text or an image")
        default: throw FieldProblem.error(at: decoder.codingPath, "has a text and an image; it may have one of them")
        }
        if let position = try fields.decodeIfPresent(Position.self, forKey: .position) { self.position = position }
        if let opacity = try fields.read(Double.self, .opacity, allowed: Self.allowedOpacities) {
            self.opacity = opacity
        }
        scale = try fields.read(Double.self, .scale, allowed: Self.allowedScales)
        if let margin = try fields.read(Int.self, .margin, allowed: Self.allowedMargins) { self.margin = margin }
        if let x = try fields.read(Double.self, .x, allowed: Self.allowedShifts) { self.x = x }
        if let y = try fields.read(Double.self, .y, allowed: Self.allowedShifts) { self.y = y }
    }

    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: CodingKeys.self)
        switch content {
        case .text(let text): try fields.encode(text, forKey: .text)
        case .image(let name): try fields.encode(name, forKey: .image)
        }
        let usual = Self(content)
        if position != usual.position { try fields.encode(position.rawValue, forKey: .position) }
        if opacity != usual.opacity { try fields.encode(opacity, forKey: .opacity) }
        try fields.encodeIfPresent(scale, forKey: .scale)
        if margin != usual.margin { try fields.encode(margin, forKey: .margin) }
        if x != usual.x { try fields.encode(x, forKey: .x) }
        if y != usual.y { try fields.encode(y, forKey: .y) }
    }

    /// Names of the fields of the JSON, in the order of messages.
    package static let fieldNames = CodingKeys.allCases.map(\.rawValue)

    static let allowedImages =
        "are names of files in the directory of watermarks: 1 to 128 letters, digits, '.', '_' and '-', the first is "
        + "not '.'"
    static let allowedOpacities = "are numbers from 0 to 1"
    static let allowedScales = "are numbers from 0.01 to 1"
    static let allowedMargins = "are whole numbers of pixels from 0 to \(Rendition.maximumSide)"
    static let allowedShifts =
        "are pixels from -\(Rendition.maximumSide) to \(Rendition.maximumSide), and below 1 fractions of the side"
    private static let shifts = -Double(Rendition.maximumSide)...Double(Rendition.maximumSide)

    static var jsonSchema: JSONSchema {
        var schema = JSONSchema(
            .object,
            properties: [
                "text": JSONSchema(.string, pattern: "^.{1,\(maximumText)}$"),
                "image": JSONSchema(.string, pattern: "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"),
                "position": JSONSchema(words: Position.allCases.map(\.rawValue) + Position.aliases.keys.sorted()),
                "opacity": JSONSchema(.number, range: 0...1),
                "scale": JSONSchema(.number, range: 0.01...1),
                "margin": JSONSchema(.integer, range: 0...Double(Rendition.maximumSide)),
                "x": JSONSchema(.number, range: shifts),
                "y": JSONSchema(.number, range: shifts),
            ]
        )
        schema.anyOf = ["text", "image"].map { JSONSchema(required: [$0]) }
        return schema
    }

    /// The first invalid field; nil if all are valid.
    package var problem: FieldProblem? {
        switch content {
        case .text(let text): if let problem = Self.problem(ofText: text) { return FieldProblem("text", problem) }
        case .image(let name):
            // With an image of its own, the name finds none.
            if overlay == nil, !Self.isFileName(name) {
                return FieldProblem("image", "is \(FieldProblem.quoted(name)); allowed \(Self.allowedImages)")
            }
        }
        if !(0...1).contains(opacity) {
            return FieldProblem("opacity", "is \(opacity); allowed \(Self.allowedOpacities)")
        }
        if let scale, !(0.01...1).contains(scale) {
            return FieldProblem("scale", "is \(scale); allowed \(Self.allowedScales)")
        }
        if !(0...Rendition.maximumSide).contains(margin) {
            return FieldProblem("margin", "is \(margin); allowed \(Self.allowedMargins)")
        }
        for (field, shift) in [("x", x), ("y", y)] {
            if !Self.shifts.contains(shift) {
                return FieldProblem(field, "is \(shift); allowed \(Self.allowedShifts)")
            }
            if shift < 0 && position == .repeat {
                return FieldProblem(field, "is \(shift); allowed are 0 and more at this position, between the copies")
            }
        }
        return nil
    }

    /// Line breaks count as control characters: a watermark is one line.
    private static func problem(ofText text: String) -> String? {
        let scalars = text.unicodeScalars
        if scalars.count > maximumText {
            return "has \(scalars.count) characters; the limit is \(maximumText)"
        }
        if scalars.allSatisfy(\.properties.isWhitespace) { return "is empty; it must have a visible character" }
        let forbidden = scalars.contains {
            [.control, .lineSeparator, .paragraphSeparator].contains($0.properties.generalCategory)
        }
        return forbidden ? "is \(FieldProblem.quoted(text)); it must be one line without control characters" : nil
    }

    package static func isFileName(_ name: String) -> Bool {
        (1...128).contains(name.utf8.count) && !name.hasPrefix(".")
            && name.utf8.allSatisfy { byte in
                (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                    || [45, 46, 95].contains(byte)
            }
    }
}
