/// Encoder settings of a format.
package struct EncodingOptions: Sendable, Hashable {
    package var format: Rendition.Format
    package var quality = 80
    package var progressive = false
    package var effort: Int?
    package var lossless = false
    package var animated = false
    package var keepMetadata = Rendition.KeptMetadata.none
    package var profile = Rendition.ColorProfile.srgb

    package init(
        format: Rendition.Format,
        quality: Int = 80,
        progressive: Bool = false,
        effort: Int? = nil,
        lossless: Bool = false,
        animated: Bool = false,
        keepMetadata: Rendition.KeptMetadata = Rendition.KeptMetadata.none,
        profile: Rendition.ColorProfile = Rendition.ColorProfile.srgb
    ) {
        self.format = format
        self.quality = quality
        self.progressive = progressive
        self.effort = effort
        self.lossless = lossless
        self.animated = animated
        self.keepMetadata = keepMetadata
        self.profile = profile
    }

    /// Fields that differ from their defaults, by name. Keys contain format and quality separately.
    package var identity: [String] {
        var fields: [String] = []
        if progressive { fields.append("progressive") }
        if let effort, effort != format.defaultEffort { fields.append("effort=\(effort)") }
        if lossless { fields.append("lossless") }
        if animated { fields.append("animated") }
        if keepMetadata != .none { fields.append("metadata=\(keepMetadata.rawValue)") }
        if profile != .srgb { fields.append("profile=\(profile.rawValue)") }
        return fields
    }

    /// A message about the first invalid value, or nil.
    package var complaint: String? { problem?.description }

    /// The first field with an invalid value, or nil. An option that the format does not support is invalid, because it
    /// would silently have no effect.
    package var problem: FieldProblem? {
        func isFor(_ field: String, _ formats: String) -> FieldProblem {
            FieldProblem(field, "is for \(formats), not \(format.rawValue)")
        }
        if !(1...100).contains(quality) { return FieldProblem("quality", "is \(quality); allowed are 1 to 100") }
        if progressive && !format.isProgressive { return isFor("progressive", "jpeg and png") }
        if let effort {
            guard let efforts = format.efforts else {
                return FieldProblem("effort", "is \(effort); \(format.rawValue) has no effort")
            }
            if !efforts.contains(effort) {
                let range = "\(efforts.lowerBound) to \(efforts.upperBound)"
                return FieldProblem("effort", "is \(effort); allowed are \(range) for \(format.rawValue)")
            }
        }
        if lossless && !format.hasLossless { return isFor("lossless", "webp and jxl") }
        if animated && !format.hasFrames { return isFor("animated", "gif and webp") }
        if keepMetadata != .none && !format.hasMetadata {
            let kept = keepMetadata.rawValue
            return FieldProblem("keepMetadata", "is \(kept); \(format.rawValue) has no metadata to keep")
        }
        if profile != .srgb && !format.hasProfile {
            return FieldProblem("profile", "is \(profile.rawValue); \(format.rawValue) has no color profiles")
        }
        return nil
    }
}
