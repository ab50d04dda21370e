/// The JSON form. Unknown fields are refused by name, so that a misspelled option is not silently ignored. Options at
/// their defaults are not written, except for the fields of the first version.
extension Rendition: Codable {
    package enum CodingKeys: String, CodingKey, CaseIterable {
        case name, width, height, fit, format, quality, background
        case gravity, focus, dpr, enlarge, progressive, effort, lossless, animated, keepMetadata, profile
        case qualityProfile, failOn
    }

    /// - Throws: `DecodingError` with a sentence that names the field.
    public init(from decoder: any Decoder) throws {
        let isChecked = decoder.userInfo[.wasValidated] as? Bool == true
        let fields = try decoder.fields(
            CodingKeys.self,
            isChecked: isChecked,
            allowed: #"an object such as {"width": 256, "height": 256}"#
        )
        let background = try fields.read(String.self, .background, allowed: Self.allowedColors)
        let color = background.map(Color.init(hex:)) ?? .white
        guard let color else {
            throw FieldProblem(
                "background",
                "is \(FieldProblem.quoted(background ?? "")); allowed \(Self.allowedColors)"
            ).error(at: decoder.codingPath)
        }
        let sides = "are whole numbers from 1 to \(Self.maximumSide), pixels"
        let (wholes, truths) = ("are whole numbers", "are true and false")
        self.init(
            name: try fields.read(String.self, .name, allowed: Self.allowedNames),
            width: try fields.read(Int.self, .width, allowed: sides),
            height: try fields.read(Int.self, .height, allowed: sides),
            fit: try fields.decodeIfPresent(Fit.self, forKey: .fit) ?? .inside,
            format: try fields.decodeIfPresent(Format.self, forKey: .format) ?? .jpeg,
            quality: try fields.read(Int.self, .quality, allowed: "\(wholes) from 1 to 100") ?? 80,
            background: color,
            gravity: try fields.decodeIfPresent(Gravity.self, forKey: .gravity) ?? .center,
            focus: try fields.decodeIfPresent(FocalPoint.self, forKey: .focus),
            dpr: try fields.read(Double.self, .dpr, allowed: "are numbers from 1 to 4") ?? 1,
            enlarge: try fields.read(Bool.self, .enlarge, allowed: truths) ?? false,
            progressive: try fields.read(Bool.self, .progressive, allowed: truths) ?? false,
            effort: try fields.read(Int.self, .effort, allowed: wholes),
            lossless: try fields.read(Bool.self, .lossless, allowed: truths) ?? false,
            animated: try fields.read(Bool.self, .animated, allowed: truths) ?? false,
            keepMetadata: try fields.decodeIfPresent(KeptMetadata.self, forKey: .keepMetadata) ?? KeptMetadata.none,
            profile: try fields.decodeIfPresent(ColorProfile.self, forKey: .profile) ?? .srgb,
            qualityProfile: try fields.decodeIfPresent(QualityProfile.self, forKey: .qualityProfile) ?? .balanced,
            failOn: try fields.decodeIfPresent(FailOn.self, forKey: .failOn)
        )
        if !isChecked, let problem { throw problem.error(at: decoder.codingPath) }
    }

    private static let allowedColors = "are colors such as \"#ffffff\""

    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: CodingKeys.self)
        try fields.encode(name, forKey: .name)
        try fields.encodeIfPresent(width, forKey: .width)
        try fields.encodeIfPresent(height, forKey: .height)
        try fields.encode(fit, forKey: .fit)
        try fields.encode(format, forKey: .format)
        try fields.encode(quality, forKey: .quality)
        if background != .white { try fields.encode(background.description, forKey: .background) }
        if gravity != .center { try fields.encode(gravity, forKey: .gravity) }
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
        try fields.encodeIfPresent(failOn, forKey: .failOn)
    }
}

extension CodingUserInfoKey {
    /// Set to true if the JSON was written by Megaton from a validated value, so that it is not validated again.
    public static let wasValidated = CodingUserInfoKey(rawValue: "megaton.wasValidated")!
}

extension Decoder {
    /// Returns the fields of an object after a check that none of them is unknown.
    ///
    /// - Parameters:
    ///   - isChecked: whether the JSON is known to be valid, which skips the check.
    ///   - allowed: an example of such an object, for the message if the value is none.
    public func fields<Keys: CodingKey & CaseIterable>(
        _ keys: Keys.Type,
        isChecked: Bool,
        allowed: String
    ) throws -> KeyedDecodingContainer<Keys> {
        guard let fields = try? container(keyedBy: keys) else {
            throw FieldProblem.error(at: codingPath, "is \(JSONTree.shown(from: self).shown); allowed is \(allowed)")
        }
        if !isChecked { try refuseUnknownFields(except: keys) }
        return fields
    }

    /// Throws if a keyed value has fields other than those of `Keys`.
    public func refuseUnknownFields<Keys: CodingKey & CaseIterable>(except keys: Keys.Type) throws {
        let known = Keys.allCases.map(\.stringValue)
        let present = try container(keyedBy: AnyCodingKey.self).allKeys.map(\.stringValue)
        guard let first = present.filter({ !known.contains($0) }).min() else { return }
        throw FieldProblem.error(at: codingPath, "has an \(FieldProblem.unknownField(first, known: known))")
    }
}
