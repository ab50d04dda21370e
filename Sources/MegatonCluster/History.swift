internal import Logging

/// Optional history of a worker. If an event cannot be written, the error is logged and the work continues.
struct History: Sendable {
    let file: HistoryFile?
    let logger: Logger

    func note(_ event: @autoclosure () -> HistoryEvent) async {
        guard let file else { return }
        do {
            try await file.note(event())
        } catch {
            logger.error("the history has a gap", metadata: [LogKey.error: "\(error)"])
        }
    }
}
