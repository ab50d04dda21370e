internal import Foundation

/// Names of what process ids are valid in, so that a worker that starts can tell which of its predecessors are gone.
///
/// A host name is not enough: containers may share it, and a process id of one is another process in the next.
enum ProcessSpace {
    /// The boot of the machine and the namespace of its process ids; nil if `/proc` does not say.
    static let current: String? = {
        // Without /proc nothing is known, and leases run out by themselves.
        guard let boot = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8),
            let namespace = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/ns/pid")
        else { return nil }
        return boot.trimmingCharacters(in: .whitespacesAndNewlines) + " " + namespace
    }()

    /// Whether no process has this id, in the current space.
    static func isGone(_ pid: Int32) -> Bool { pid > 0 && kill(pid, 0) == -1 && errno == ESRCH }
}
