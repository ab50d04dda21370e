/// The JSON form. Unknown fields are refused by name, so that a misspelled option is not silently ignored. Options at
/// their defaults are not written, except for the fields of the first version.
extension Rendition: Codable {
    /// - Throws: `DecodingError` with a sentence that names the field.
    public init(from decoder: any Decoder) throws {
        let isChecked = decoder.userInfo[.wasValidated] as? Bool == true
        let fields = try decoder.fields(
            RenditionOption.names,
            isChecked: isChecked,
            allowed: #"an object such as {"width": 256, "height": 256}"#
        )
        self.init(name: "")
        for option in RenditionOption.all { try option.decode(fields, &self) }
        // An empty name may have been given, which is invalid.
        if name.isEmpty, try fields.decodeIfPresent(String.self, forKey: AnyCodingKey("name")) == nil {
            name = Self.defaultName(width: width, height: height)
        }
        if !isChecked, let problem { throw problem.error(at: decoder.codingPath) }
    }

    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: AnyCodingKey.self)
        for option in RenditionOption.all { try option.encode(self, &fields) }
    }
}

extension CodingUserInfoKey {
    /// Set to true if the JSON was written by Megaton from a validated value, so that it is not validated again.
    package static let wasValidated = CodingUserInfoKey(rawValue: "megaton.wasValidated")!
}

extension Decoder {
    /// Returns the fields of an object after a check that none of them is unknown.
    ///
    /// - Parameters:
    ///   - isChecked: whether the JSON is known to be valid, which skips the check.
    ///   - allowed: an example of such an object, for the message if the value is none.
    package func fields<Keys: CodingKey & CaseIterable>(
        _ keys: Keys.Type,
        isChecked: Bool,
        allowed: String
    ) throws -> KeyedDecodingContainer<Keys> {
        guard let fields = try? container(keyedBy: keys) else { throw noObject(allowed) }
        if !isChecked { try refuseUnknownFields(except: keys) }
        return fields
    }

    /// Like the function above, for fields whose names are known at run time only.
    func fields(
        _ names: [String],
        isChecked: Bool,
        allowed: String
    ) throws -> KeyedDecodingContainer<AnyCodingKey> {
        guard let fields = try? container(keyedBy: AnyCodingKey.self) else { throw noObject(allowed) }
        if !isChecked { try refuseUnknownFields(of: fields, except: names) }
        return fields
    }

    private func noObject(_ allowed: String) -> DecodingError {
        FieldProblem.error(at: codingPath, "is \(JSONTree.shown(from: self).shown); allowed is \(allowed)")
    }

    /// Throws if a keyed value has fields other than those of `Keys`.
    func refuseUnknownFields<Keys: CodingKey & CaseIterable>(except keys: Keys.Type) throws {
        let fields = try container(keyedBy: AnyCodingKey.self)
        try refuseUnknownFields(of: fields, except: Keys.allCases.map(\.stringValue))
    }

    private func refuseUnknownFields(
        of fields: KeyedDecodingContainer<AnyCodingKey>,
        except known: [String]
    ) throws {
        let unknown = fields.allKeys.map(\.stringValue).filter { !known.contains($0) }
        guard let first = unknown.min() else { return }
        throw FieldProblem.error(at: codingPath, "has an \(FieldProblem.unknownField(first, known: known))")
    }
}
