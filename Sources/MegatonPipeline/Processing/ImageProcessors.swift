/// The processors that come with the pipeline.
public enum ImageProcessors {
    /// How a picture meets a size.
    public enum ContentMode: String, Sendable, Codable, CaseIterable {
        /// As small as covers it.
        case aspectFill
        /// As large as fits within it.
        case aspectFit
    }
}
