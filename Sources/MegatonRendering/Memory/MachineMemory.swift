internal import Foundation

/// The memory available to this process: the machine's, or the smallest limit of its control groups.
package enum MachineMemory {
    /// The limit, in bytes.
    package static var limit: Int {
        let machine = Int(clamping: ProcessInfo.processInfo.physicalMemory)
        // A file that is missing or unreadable sets no limit.
        return limit(machine: machine) { try? String(contentsOfFile: $0, encoding: .utf8) }
    }

    /// - Parameter read: Returns the text of a file, nil if it cannot be read.
    static func limit(machine: Int, read: (_ path: String) -> String?) -> Int {
        var limits = [machine]
        for line in (read("/proc/self/cgroup") ?? "").split(separator: "\n") {
            // A line is hierarchy:controllers:path; version 2 leaves the controllers empty (cgroups(7)).
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { continue }
            let controllers = fields[1].split(separator: ",")
            let (root, file): (String, String)
            if fields[1].isEmpty {
                (root, file) = ("/sys/fs/cgroup", "memory.max")
            } else if controllers.contains("memory") {
                (root, file) = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            } else {
                continue
            }
            // A group's limit also applies to its descendants. In a container the path may be the host's and then does
            // not exist there; the root is then the container's own group.
            var path = fields[2].split(separator: "/")
            while true {
                let folder = ([root[...]] + path).joined(separator: "/")
                let text = read("\(folder)/\(file)")?.trimmingCharacters(in: .whitespacesAndNewlines)
                // "max" is not a number; version 1 writes 2^63 less a page for "no limit".
                if let text, let bytes = Int(text), bytes > 0 { limits.append(bytes) }
                if path.isEmpty { break }
                path.removeLast()
            }
        }
        return limits.min() ?? machine
    }
}
