/// The wire form: unknown fields are refused by name, so that a misspelt option is not silently without effect. What is
/// at its default is not written, but for the fields of the first version.
extension Rendition: Codable {
    enum CodingKeys: String, CodingKey, CaseIterable {
        case name, width, height, fit, format, quality, background
        case gravity, focus, dpr, enlarge, progressive, effort, lossless, animated, keepMetadata, profile
        case qualityProfile
    }

    /// - Throws: `DecodingError` with a sentence that names the field.
    public init(from decoder: any Decoder) throws {
        let isChecked = decoder.userInfo[.wasValidated] as? Bool == true
        if !isChecked { try decoder.refuseUnknownFields(except: CodingKeys.self) }
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        let background = try fields.decodeIfPresent(String.self, forKey: .background)
        let color = background.map(Color.init(hex:)) ?? .white
        guard let color else {
            throw DecodingError.dataCorruptedError(
                forKey: .background,
                in: fields,
                debugDescription: "a background looks like \"#ffffff\""
            )
        }
        self.init(
            name: try fields.decodeIfPresent(String.self, forKey: .name),
            width: try fields.decodeIfPresent(Int.self, forKey: .width),
            height: try fields.decodeIfPresent(Int.self, forKey: .height),
            fit: try fields.decodeIfPresent(Fit.self, forKey: .fit) ?? .inside,
            format: try fields.decodeIfPresent(Format.self, forKey: .format) ?? .jpeg,
            quality: try fields.decodeIfPresent(Int.self, forKey: .quality) ?? 80,
            background: color,
            gravity: try fields.decodeIfPresent(Gravity.self, forKey: .gravity) ?? .centre,
            focus: try fields.decodeIfPresent(FocalPoint.self, forKey: .focus),
            dpr: try fields.decodeIfPresent(Double.self, forKey: .dpr) ?? 1,
            enlarge: try fields.decodeIfPresent(Bool.self, forKey: .enlarge) ?? false,
            progressive: try fields.decodeIfPresent(Bool.self, forKey: .progressive) ?? false,
            effort: try fields.decodeIfPresent(Int.self, forKey: .effort),
            lossless: try fields.decodeIfPresent(Bool.self, forKey: .lossless) ?? false,
            animated: try fields.decodeIfPresent(Bool.self, forKey: .animated) ?? false,
            keepMetadata: try fields.decodeIfPresent(KeptMetadata.self, forKey: .keepMetadata) ?? KeptMetadata.none,
            profile: try fields.decodeIfPresent(ColorProfile.self, forKey: .profile) ?? .srgb,
            qualityProfile: try fields.decodeIfPresent(QualityProfile.self, forKey: .qualityProfile) ?? .balanced
        )
        if !isChecked, let complaint {
            throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: complaint))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: CodingKeys.self)
        try fields.encode(name, forKey: .name)
        try fields.encodeIfPresent(width, forKey: .width)
        try fields.encodeIfPresent(height, forKey: .height)
        try fields.encode(fit, forKey: .fit)
        try fields.encode(format, forKey: .format)
        try fields.encode(quality, forKey: .quality)
        if background != .white { try fields.encode(background.description, forKey: .background) }
        if gravity != .centre { try fields.encode(gravity, forKey: .gravity) }
        try fields.encodeIfPresent(focus, forKey: .focus)
        if dpr != 1 { try fields.encode(dpr, forKey: .dpr) }
        if enlarge { try fields.encode(true, forKey: .enlarge) }
        if progressive { try fields.encode(true, forKey: .progressive) }
        try fields.encodeIfPresent(effort, forKey: .effort)
        if lossless { try fields.encode(true, forKey: .lossless) }
        if animated { try fields.encode(true, forKey: .animated) }
        if keepMetadata != .none { try fields.encode(keepMetadata, forKey: .keepMetadata) }
        if profile != .srgb { try fields.encode(profile, forKey: .profile) }
        if qualityProfile != .balanced { try fields.encode(qualityProfile, forKey: .qualityProfile) }
    }
}

extension CodingUserInfoKey {
    /// Set to true where the JSON is our own, written from a value that was validated: it is not validated again.
    public static let wasValidated = CodingUserInfoKey(rawValue: "megaton.wasValidated")!
}

extension Decoder {
    /// Refuses a keyed value that has fields other than those of `Keys`.
    public func refuseUnknownFields<Keys: CodingKey & CaseIterable>(except keys: Keys.Type) throws {
        let known = Set(Keys.allCases.map(\.stringValue))
        let present = try container(keyedBy: AnyCodingKey.self).allKeys.map(\.stringValue)
        let unknown = present.filter { !known.contains($0) }.sorted()
        guard let first = unknown.first else { return }
        throw DecodingError.dataCorrupted(
            .init(
                codingPath: codingPath,
                debugDescription: "unknown field \"\(first)\"; known are \(known.sorted().joined(separator: ", "))"
            )
        )
    }
}

/// Any field name.
private struct AnyCodingKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init?(stringValue: String) { self.stringValue = stringValue }

    init?(intValue: Int) { nil }
}
