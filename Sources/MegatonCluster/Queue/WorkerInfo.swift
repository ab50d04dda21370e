internal import Foundation

/// A worker's description of itself, which the cluster reads.
package struct WorkerInfo: Sendable, Codable {
    var host: String
    var pid: Int
    /// Seconds since 1970, by the worker's clock; for display only.
    var started: Int
    /// Jobs in progress at a time.
    var concurrency: Int
    /// Version of the program.
    var version: String
    /// Seconds between two heartbeats. Nil from an older version.
    var renewal: Double?
    /// Seconds that a lease lasts. Nil from an older version.
    var lease: Double?
    /// Number of shards that its places are for. Nil for one, and from an older version.
    var shards: Int?
    /// The space in which its process id is valid: see `ProcessSpace`. Nil from an older version.
    var space: String?
    /// Why it claims few jobs or none, such as a full disk; nil if it claims as many as it can run.
    var problem: String?
    /// Version of the protocol. Nil from an older version.
    var protocolVersion: Int? = QueueKeys.version

    package var json: String { WireJSON.text(self) }
}

extension WorkerInfo {
    /// Info of a worker that does not say where it runs, as those of benchmarks.
    package init(concurrency: Int) {
        self.init(host: "", pid: 0, started: 0, concurrency: concurrency, version: Megaton.version)
    }

    /// Characters of a problem that are reported.
    static let maximumProblem = 200

    /// Seconds between two heartbeats of a worker that does not state its own.
    static let usualRenewal = 5.0

    /// Whether a worker has missed at most two heartbeats. Otherwise it died or hangs.
    ///
    /// - Parameters:
    ///   - silent: seconds since its last heartbeat.
    ///   - renewal: seconds between two of them, nil if it does not state its own.
    static func isLiving(silent: Double, renewal: Double?) -> Bool { silent <= 3 * (renewal ?? usualRenewal) }

    /// Reads a value that `renew` stored: `<running> <JSON>`. Nil if it cannot be read, as another version wrote it.
    init?(stored text: String) {
        guard let space = text.firstIndex(of: " "),
            let info = try? JSONDecoder().decode(WorkerInfo.self, from: Data(text[space...].utf8))
        else { return nil }
        self = info
    }
}
