extension Rendition {
    /// How much of the downscaling the decoder does, if the format supports that: JPEG by 2, 4 or 8, WebP by any
    /// factor.
    ///
    /// Decoders downscale at a fraction of the cost, by averaging blocks, which causes aliasing and sharpening. The
    /// article Engines lists the cost of each profile.
    public enum QualityProfile: String, WordChoice {
        /// The decoder downscales as far as the output size.
        case fast
        /// The decoder leaves a factor of two to the resampling, as libvips' own thumbnailer does, and one of 1.5 to
        /// that of planes for JPEGs of a quality of at most 90.
        case balanced
        /// The decoder does not downscale: each pixel of the source is resampled.
        case faithful

        /// Minimum ratio of the decoded size to the output size; nil to decode at the source's own size.
        var margin: Double? {
            switch self {
            case .fast: 1
            case .balanced: 2
            case .faithful: nil
            }
        }
    }
}
