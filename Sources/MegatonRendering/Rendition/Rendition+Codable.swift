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
