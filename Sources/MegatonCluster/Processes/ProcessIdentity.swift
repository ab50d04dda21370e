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
