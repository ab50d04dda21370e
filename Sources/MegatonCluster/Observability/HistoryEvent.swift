internal import Foundation

/// A step of a worker, as a history has it.
public struct HistoryEvent: Sendable, Codable, Equatable {
    /// What was done.
    public enum Kind: String, Sendable, Codable {
        /// A job was claimed.
        case claim
        /// Redis was told of an attempt's end, and answered.
        case settle
        /// A flight is led.
        case lead
        /// A flight ended: `ok`, `stale`, `torn`, or `failed`.
        case land
        /// An origin is asked.
        case fetch
    }

    public var kind: Kind
    /// Milliseconds since 1970 by this machine's clock: for people, never for the proof.
    public var at: Int
    /// Of a job.
    public var id: String?
    public var attempt: Int?
    /// Of a flight; of a fetch its host and a hash of its URL.
    public var key: String?
    public var token: Int?
    /// How it ended.
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
