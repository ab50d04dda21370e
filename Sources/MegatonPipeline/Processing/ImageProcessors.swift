/// The processors that come with the pipeline. Beside what each of them says they throw `.renderTimedOut` and
/// `.cancelled`, where their context tells them to end.
public enum ImageProcessors {
    /// How a picture meets a size.
    public enum ContentMode: String, Sendable, Codable, CaseIterable, CustomStringConvertible {
        /// As small as covers it.
        case aspectFill
        /// As large as fits within it.
        case aspectFit

        public var description: String { ".\(rawValue)" }
    }
}
