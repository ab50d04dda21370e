internal import Logging

/// A worker's history, where one is kept. A step that cannot be written down is taken all the same, and told.
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
