package import Logging
internal import Synchronization

/// The lines of a log for a test: level, message and sorted fields.
package final class LogLines: Sendable {
    private let lines = Mutex<[String]>([])

    package init() {}

    package var all: [String] { lines.withLock { $0 } }
    package var warnings: [String] { all.filter { $0.hasPrefix("warning ") } }
    /// The levels of the lines.
    package var levels: [String] { all.map { String($0.prefix { $0 != " " }) } }

    /// A logger that writes the lines of this level and above.
    package func logger(from level: Logger.Level = .info) -> Logger {
        Logger(label: "test") { [self] _ in Handler(lines: self, logLevel: level) }
    }

    private struct Handler: LogHandler {
        let lines: LogLines
        var metadata: Logger.Metadata = [:]
        var logLevel: Logger.Level

        init(lines: LogLines, logLevel: Logger.Level) { (self.lines, self.logLevel) = (lines, logLevel) }

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let fields = (event.metadata ?? [:]).map { "\($0.key)=\($0.value)" }.sorted()
            let line = "\(event.level) \(event.message) \(fields.joined(separator: " "))"
            lines.lines.withLock { $0.append(line) }
        }
    }
}
