internal import Logging
import Synchronization

/// Counts errors, and logs the first one of each kind. A full disk is logged at most once a minute.
final class DataCacheFaults: Sendable {
    private struct State {
        var counts: [String: Int] = [:]
        /// When a full disk was last logged; `dropped` counts the entries dropped since.
        var fullSince: Duration?
        var dropped = 0
    }

    private let logger: Logger
    private let now: @Sendable () -> Duration
    private let state = Mutex(State())
    private static let fullInterval: Duration = .seconds(60)

    init(logger: Logger, time: TimeSource) {
        self.logger = logger
        now = time.now
    }

    /// Number of errors by kind. Bounded by the number of operations times that of reasons.
    var counts: [String: Int] { state.withLock { $0.counts } }

    func note(_ fault: DataCacheFault) {
        let isFirst = state.withLock { state in
            state.counts[fault.kind, default: 0] += 1
            return state.counts[fault.kind] == 1
        }
        if fault.isFull { return noteFull(fault) }
        if !isFirst { return }
        logger.warning(
            "the disk cache met an error; further ones of this kind are only counted",
            metadata: ["cache.operation": "\(fault.operation)", "error": "\(fault.reason)", "path": "\(fault.path)"]
        )
    }

    private func noteFull(_ fault: DataCacheFault) {
        let now = now()
        let dropped = state.withLock { state -> Int? in
            state.dropped += 1
            if let since = state.fullSince, now - since < Self.fullInterval { return nil }
            state.fullSince = now
            defer { state.dropped = 0 }
            return state.dropped
        }
        guard let dropped else { return }
        logger.warning(
            "the disk is full: the disk cache drops entries; free space there or lower its sizeLimit",
            metadata: ["error": "\(fault.reason)", "path": "\(fault.path)", "cache.dropped": "\(dropped)"]
        )
    }
}
