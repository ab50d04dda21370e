extension Doctor {
    /// One thing that was looked at.
    public struct Finding: Sendable, Codable, Equatable {
        /// How bad it is.
        public enum Level: String, Sendable, Codable {
            case ok, warning, error
        }

        public var level: Level
        public var subject: String
        /// What was found and, unless it is fine, what to do.
        public var message: String
    }
}
