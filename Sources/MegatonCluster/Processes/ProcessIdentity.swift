internal import Foundation

/// Unique names of processes and batches.
package enum ProcessIdentity {
    /// `host:pid:random`
    package static func process() -> String {
        let info = ProcessInfo.processInfo
        return "\(info.hostName):\(info.processIdentifier):\(random(8))"
    }

    /// `run-20261120-184500-3f9a1c`
    package static func batch(_ prefix: String) -> String {
        let format = DateFormatter()
        format.locale = Locale(identifier: "en_US_POSIX")
        format.dateFormat = "yyyyMMdd-HHmmss"
        return "\(prefix)-\(format.string(from: Date()))-\(random(6))"
    }

    private static func random(_ count: Int) -> String {
        String((0..<count).map { _ in "0123456789abcdef".randomElement() ?? "0" })
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
