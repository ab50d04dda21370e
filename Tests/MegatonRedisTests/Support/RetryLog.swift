import Logging

/// Reports each reconnect attempt of a client, with its delay in milliseconds.
struct RetryLog: LogHandler {
    let delays: AsyncStream<Int>.Continuation
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level = .debug

    func log(event: LogEvent) {
        if let delay = event.metadata?["delay.ms"].flatMap({ Int("\($0)") }) { delays.yield(delay) }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }
}
