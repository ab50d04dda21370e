import Foundation
import MegatonCommandLine

/// The limit of open files of this process.
enum OpenFileLimit {
    /// Raises the limit as far as the system allows.
    ///
    /// - Throws: `CLIError` if that is not enough.
    static func require(_ count: Int, for purpose: String) throws(CLIError) {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return }
        let maximum = limit.rlim_max
        limit.rlim_cur = maximum
        // If it fails, the limit may still be enough.
        _ = setrlimit(resource, &limit)
        if maximum < rlim_t(count) {
            throw CLIError.system(
                "\(purpose) need about \(count) open files in one process, and this system allows \(maximum). Raise "
                    + "the limit (ulimit -Hn), or take fewer workers."
            )
        }
    }
}

/// The threads of this process.
enum ProcessThreads {
    /// Nil if there is no /proc.
    static func count() -> Int? {
        guard let text = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8) else { return nil }
        let line = text.split(separator: "\n").first { $0.hasPrefix("Threads:") }
        return line.flatMap { Int($0.dropFirst("Threads:".count).filter(\.isNumber)) }
    }
}
