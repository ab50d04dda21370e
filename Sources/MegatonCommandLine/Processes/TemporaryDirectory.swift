import Foundation

/// A new directory beneath `TMPDIR` that only this user may enter (mode 700). Its path is short enough for a socket in
/// it (108 bytes, unix(7)).
package struct TemporaryDirectory: Sendable {
    package let path: String

    /// Leaves room for "/megaton-XXXXXX/redis.sock".
    private static let longestParent = 80

    /// - Throws: `CLIError` if the directory cannot be created.
    package init() throws {
        let parent = Self.parent(ProcessInfo.processInfo.environment["TMPDIR"])
        var template = Array("\(parent)/megaton-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw CLIError.output(
                "no temporary directory can be created in \(parent): \(String(cString: strerror(errno)))."
            )
        }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// `TMPDIR` if it is an absolute path that is short enough, or else `/tmp`.
    private static func parent(_ variable: String?) -> String {
        guard let variable, variable.hasPrefix("/"), variable.utf8.count <= longestParent else { return "/tmp" }
        return variable.count > 1 && variable.hasSuffix("/") ? String(variable.dropLast()) : variable
    }

    /// Removes the directory. A failure is reported, as the directory may contain logs and takes up space.
    package func remove() {
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            Terminal.error(
                "megaton: the temporary directory \(path) could not be removed: \(error.localizedDescription)"
            )
        }
    }
}
