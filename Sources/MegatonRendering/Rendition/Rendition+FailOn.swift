extension Rendition {
    /// The damage of a source that counts as an error: the levels of libvips, the most tolerant first. Each level
    /// includes those before it.
    ///
    /// An image that is rendered in spite of damage has a note about it (``RenditionResponse/notes``). Damage that the
    /// format's library does not detect has no effect: see the article Limits.
    public enum FailOn: String, WordChoice {
        /// Renders as much as can be decoded; missing parts are gray, black or transparent.
        case nothing = "none"
        /// Data that ends before the image does, so that an incomplete image is not taken for a whole one. A small
        /// rendition of a progressive JPEG needs its first scans only, and does not see the end of the others.
        case truncated
        /// Also invalid data: wrong codes or checksums.
        case error
        /// Also any warning of a library.
        case warning

        /// Whether more than missing data is an error, so that a JPEG is examined as a whole before it is decoded.
        var isStrict: Bool { self == .error || self == .warning }
    }
}
