extension Rendition {
    /// Which damage of a source is an error: the levels of libvips, from the most tolerant. A level has those before it.
    ///
    /// An image that is rendered in spite of damage has a remark that says so (``RenditionResponse/notes``).
    /// Damage that the format's library does not notice cannot be judged: see the article Limits.
    public enum FailOn: String, WordChoice {
        /// Whatever can be shown is shown: what is missing is grey, black or transparent.
        case nothing = "none"
        /// Data that ends before the image does: what is cut off is not shown as if it were whole.
        case truncated
        /// Data that cannot be right, too: wrong codes, wrong checksums.
        case error
        /// Whatever a library remarks, too.
        case warning
    }
}
