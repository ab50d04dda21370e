internal import Foundation
internal import Logging
import Synchronization

/// A failed operation on a file.
struct DataCacheFault: Error {
    let operation: String
    let path: String
    /// `errno`; 0 if the file itself is at fault.
    let code: Int32
    let reason: String

    init(_ operation: String, _ path: String, code: Int32 = errno) {
        self.operation = operation
        self.path = path
        self.code = code
        reason = String(cString: strerror(code))
    }

    init(_ operation: String, _ path: String, reason: String) {
        self.operation = operation
        self.path = path
        code = 0
        self.reason = reason
    }

    /// Operation and reason without the path: the number of different values is bounded.
    var kind: String { "\(operation): \(reason)" }
    /// Whether the disk is full, or its owner's quota is used up.
    var isFull: Bool { code == ENOSPC || code == EDQUOT }
}

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
            "an operation of the disk cache failed; further failures of this kind are only counted",
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
