internal import Foundation

/// How much memory this process may have at the most: the machine's, or the smallest limit of its control groups.
enum MachineMemory {
    /// Bytes.
    static var limit: Int {
        let machine = Int(clamping: ProcessInfo.processInfo.physicalMemory)
        // A file that is not there, or not for us, limits nothing.
        return limit(machine: machine) { try? String(contentsOfFile: $0, encoding: .utf8) }
    }

    /// - Parameter read: the text of a file, nil where there is none.
    static func limit(machine: Int, read: (_ path: String) -> String?) -> Int {
        var limits = [machine]
        for line in (read("/proc/self/cgroup") ?? "").split(separator: "\n") {
            // hierarchy:controllers:path; version 2 has no controllers there (cgroups(7)).
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
            // Each group's limit holds for those beneath it. In a container the path may be the host's, which is not
            // there: the root is the container's own group then.
            var path = fields[2].split(separator: "/")
            while true {
                let folder = ([root[...]] + path).joined(separator: "/")
                let text = read("\(folder)/\(file)")?.trimmingCharacters(in: .whitespacesAndNewlines)
                // "max" is no number; version 1 says 2^63 less a page instead.
                if let text, let bytes = Int(text), bytes > 0 { limits.append(bytes) }
                if path.isEmpty { break }
                path.removeLast()
            }
        }
        return limits.min() ?? machine
    }
}
