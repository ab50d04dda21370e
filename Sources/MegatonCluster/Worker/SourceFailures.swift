import MegatonCore
import Synchronization

/// The last failures of sources whose jobs this worker has retried. If the host of one is given up later, the error
/// describes the host, which other sources have brought down: the outcome names the source's own failure beside it.
/// Only failures of loads count, and only until the source is done.
///
/// Another worker may have made the attempts: then nothing is known here, and the error of the host is all there is.
final class SourceFailures: Sendable {
    private struct State {
        var recent: [String: String] = [:]
        /// Those before the recent ones.
        var older: [String: String] = [:]
    }

    private let state = Mutex(State())

    /// Sources in each of the two generations.
    private static let limit = 2048
    /// Bytes of a source; a `data:` URL may have a megabyte, and has no host.
    private static let longestSource = 2048
    /// Characters of a message.
    private static let longestMessage = 500

    /// Remembers a failure with which a job is retried.
    func note(_ error: ImageError, of source: String) {
        guard error.stage == .load, source.utf8.count <= Self.longestSource else { return }
        let text = Self.text(of: error)
        state.withLock { state in
            if state.recent.count >= Self.limit { (state.older, state.recent) = (state.recent, [:]) }
            state.recent[source] = text
        }
    }

    /// Forgets the failure of a source that is done.
    func forget(_ source: String) {
        state.withLock { state in
            if !state.recent.isEmpty { state.recent[source] = nil }
            if !state.older.isEmpty { state.older[source] = nil }
        }
    }

    /// The code and the message of the source's last failure here.
    ///
    /// - Parameter error: the error of its host. It may have begun as the failure of this source.
    /// - Returns: nil if no failure is known, or none but this error.
    func last(of source: String, besides error: ImageError) -> String? {
        let last = state.withLock { $0.recent[source] ?? $0.older[source] }
        return last == Self.text(of: error) ? nil : last
    }

    private static func text(of error: ImageError) -> String {
        "\(error.code.rawValue): \(error.message.prefix(longestMessage))"
    }
}
