internal import Foundation

/// An event in the history of a worker.
public struct HistoryEvent: Sendable, Codable, Equatable {
    /// Kinds of events.
    public enum Kind: String, Sendable, Codable {
        /// A job was claimed.
        case claim
        /// Redis acknowledged the end of an attempt.
        case settle
        /// The worker leads a flight.
        case lead
        /// A flight ended: `ok`, `stale`, `torn`, or `failed`.
        case land
        /// A request is sent to an origin.
        case fetch
    }

    public var kind: Kind
    /// Milliseconds since 1970 by this machine's clock: for readers only, a checker must not rely on it.
    public var at: Int
    /// The id of the job.
    public var id: String?
    public var attempt: Int?
    /// The key of the flight; for a fetch its host and a hash of its URL.
    public var key: String?
    public var token: Int?
    /// Outcome of the step.
    public var result: String?

    init(
        _ kind: Kind,
        id: String? = nil,
        attempt: Int? = nil,
        key: String? = nil,
        token: Int? = nil,
        result: String? = nil
    ) {
        self.kind = kind
        at = Int(Date().timeIntervalSince1970 * 1000)
        self.id = id
        self.attempt = attempt
        self.key = key
        self.token = token
        self.result = result
    }
}
