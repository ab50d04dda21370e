import Foundation

/// A fresh directory that only we may enter (mode 700), with a path short enough for a socket within (108 bytes).
struct TemporaryDirectory: Sendable {
    let path: String

    /// - Throws: `Failure` where it cannot be made.
    init() throws {
        var template = Array("/tmp/megaton-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw Failure.output("a directory in /tmp cannot be made: \(String(cString: strerror(errno))).")
        }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// What cannot be removed is told: it may hold logs, and it takes room.
    func remove() {
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            Terminal.error("megaton: \(path) is left behind: \(error.localizedDescription)")
        }
    }
}
