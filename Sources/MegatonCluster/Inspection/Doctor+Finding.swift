extension Doctor {
    /// Result of one check.
    public struct Finding: Sendable, Codable, Equatable {
        /// Severity of a finding.
        public enum Level: String, Sendable, Codable {
            case ok, warning, error
        }

        public var level: Level
        public var subject: String
        /// The observation and, unless it is fine, the remedy.
        public var message: String
    }
}
