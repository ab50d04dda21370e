internal import Foundation

/// The descriptors of this process, which its connections share with everything else.
package enum OpenFiles {
    /// Descriptors that are left for connections to Redis, files and the event loops.
    private static let others = 256

    /// Raises the limit of the process, if it is lower than that of the system, for a number of connections.
    ///
    /// - Returns: the number of connections for which there are descriptors, at least 64. Without such a limit, a
    ///   server would accept connections until the system refuses one, and end.
    package static func connections(atMost wanted: Int) -> Int {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return 64 }
        let needed = rlim_t(wanted + others)
        if limit.rlim_cur < needed && limit.rlim_cur < limit.rlim_max {
            var raised = limit
            raised.rlim_cur = min(needed, limit.rlim_max)
            // If it fails, the former limit counts.
            if setrlimit(resource, &raised) == 0 { limit = raised }
        }
        if limit.rlim_cur >= needed { return wanted }
        return max(64, Int(limit.rlim_cur) - others)
    }

    /// Whether the limits of the process and of the system let this number of files be opened now.
    package static func haveRoom(for count: Int) -> Bool {
        var opened: [Int32] = []
        defer { for descriptor in opened { close(descriptor) } }
        for _ in 0..<count {
            let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { return errno != EMFILE && errno != ENFILE }
            opened.append(descriptor)
        }
        return true
    }
}
