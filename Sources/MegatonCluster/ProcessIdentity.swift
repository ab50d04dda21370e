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

/// Path of this program, to start it again.
package enum CommandLineProgram {
    package static var path: String? {
        // Nil without /proc, which the callers report.
        let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        // An upgrade replaced the file. The kernel still has the old one, and starts it by this name.
        return path?.hasSuffix(" (deleted)") == true ? "/proc/\(getpid())/exe" : path
    }
}
