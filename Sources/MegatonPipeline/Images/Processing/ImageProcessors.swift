/// The built-in processors. In addition to their documented errors, all throw `.renderTimedOut` and `.cancelled` when
/// their context's deadline passes or the request is cancelled.
public enum ImageProcessors {
    /// How an image is scaled to a size.
    public enum ContentMode: String, Sendable, Codable, CaseIterable, CustomStringConvertible {
        /// Scales to the smallest size that covers the target.
        case aspectFill
        /// Scales to the largest size that fits within the target.
        case aspectFit

        public var description: String { ".\(rawValue)" }
    }
}
