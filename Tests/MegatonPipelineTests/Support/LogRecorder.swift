import Logging
import Synchronization

/// Stores log lines.
final class LogRecorder: LogHandler {
    private let lines = Mutex<[String]>([])

    /// Level, message and metadata of each line.
    var recorded: [String] { lines.withLock { $0 } }

    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }
    var logLevel: Logger.Level {
        get { .trace }
        set {}
    }
    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }

    func log(event: LogEvent) {
        let fields = (event.metadata ?? [:]).map { "\($0.key)=\($0.value)" }.sorted()
        lines.withLock { $0.append("\(event.level) \(event.message) \(fields.joined(separator: " "))") }
    }
}
