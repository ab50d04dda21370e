internal import Foundation

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
