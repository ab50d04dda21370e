internal import Foundation

/// A worker's description of itself, which the cluster reads.
package struct WorkerInfo: Sendable, Codable {
    var host: String
    var pid: Int
    /// Seconds since 1970, by the worker's clock; for display only.
    var started: Int
    /// Jobs in progress at a time.
    var concurrency: Int
    var version: String
    /// Seconds between two heartbeats. Nil from an older version.
    var renewal: Double?
    /// The space in which its process id is valid: see `ProcessSpace`. Nil from an older version.
    var space: String?

    package var json: String { WireJSON.text(self) }
}

extension WorkerInfo {
    /// Info of a worker that does not say where it runs, as those of benchmarks.
    package init(concurrency: Int) {
        self.init(host: "", pid: 0, started: 0, concurrency: concurrency, version: Megaton.version)
    }

    /// Reads a value that `renew` stored: `<running> <JSON>`. Nil if it cannot be read, as another version wrote it.
    init?(stored text: String) {
        guard let space = text.firstIndex(of: " "),
            let info = try? JSONDecoder().decode(WorkerInfo.self, from: Data(text[space...].utf8))
        else { return nil }
        self = info
    }
}

/// Identifies the space in which process ids are valid, so that a starting worker can detect which of its predecessors
/// are gone.
///
/// A host name is not enough: containers may share it, and the same process id denotes another process in each.
enum ProcessSpace {
    /// The boot of the machine and the namespace of its process ids; nil if `/proc` cannot be read.
    static let current: String? = {
        // Without /proc the space is unknown, and leases run out by themselves.
        guard let boot = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8),
            let namespace = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/ns/pid")
        else { return nil }
        return boot.trimmingCharacters(in: .whitespacesAndNewlines) + " " + namespace
    }()

    /// Whether no process in the current space has this id.
    static func isGone(_ pid: Int32) -> Bool { pid > 0 && kill(pid, 0) == -1 && errno == ESRCH }
}
