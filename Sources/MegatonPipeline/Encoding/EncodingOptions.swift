/// How pixels become bytes.
struct EncodingOptions: Sendable, Hashable {
    var format: Rendition.Format
    var quality = 80
    var progressive = false
    var effort: Int?
    var lossless = false
    var animated = false
    var keepMetadata = Rendition.KeptMetadata.none
    var profile = Rendition.ColorProfile.srgb

    /// What is not at its default, each with its name. Format and quality stand elsewhere.
    var identity: [String] {
        var fields: [String] = []
        if progressive { fields.append("progressive") }
        if let effort, effort != format.defaultEffort { fields.append("effort=\(effort)") }
        if lossless { fields.append("lossless") }
        if animated { fields.append("animated") }
        if keepMetadata != .none { fields.append("metadata=\(keepMetadata.rawValue)") }
        if profile != .srgb { fields.append("profile=\(profile.rawValue)") }
        return fields
    }

    /// What is wrong with the values, or nil. An option that the format has not is refused: it would be silently
    /// without effect.
    var complaint: String? {
        if !(1...100).contains(quality) { return "quality is 1 to 100" }
        if progressive && !format.isProgressive { return "progressive is for jpeg and png, not \(format.rawValue)" }
        if let effort {
            guard let efforts = format.efforts else { return "\(format.rawValue) has no effort" }
            if !efforts.contains(effort) {
                return "effort is \(efforts.lowerBound) to \(efforts.upperBound) for \(format.rawValue)"
            }
        }
        if lossless && !format.hasLossless { return "lossless is for webp and jxl, not \(format.rawValue)" }
        if animated && !format.hasFrames { return "animated is for gif and webp, not \(format.rawValue)" }
        if keepMetadata != .none && !format.hasMetadata { return "\(format.rawValue) has no metadata to keep" }
        if profile != .srgb && !format.hasProfile { return "\(format.rawValue) has no colour profiles" }
        return nil
    }
}
