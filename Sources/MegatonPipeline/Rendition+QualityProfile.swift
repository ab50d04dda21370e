extension Rendition {
    /// How much of the shrinking is left to the decoder, where the format can shrink while it decodes: JPEG by 2, 4 or 8,
    /// WebP by any factor.
    ///
    /// Decoders shrink at a fraction of the cost, by averages of blocks, which alias and sharpen. The article Engines
    /// has what each costs.
    public enum QualityProfile: String, WordChoice {
        /// The decoder shrinks as far as the result's size.
        case fast
        /// It leaves a factor of two to the resampling: the margin of libvips' own thumbnailer.
        case balanced
        /// It does not shrink at all: each pixel of the source goes through the resampling.
        case faithful

        /// How much larger than the result what is decoded is at the least; nil for the source's own size.
        var margin: Double? {
            switch self {
            case .fast: 1
            case .balanced: 2
            case .faithful: nil
            }
        }
    }
}
