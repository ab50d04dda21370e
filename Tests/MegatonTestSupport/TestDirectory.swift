public import Foundation

/// A temporary directory for one test, with a path short enough for sockets.
public final class TestDirectory: Sendable {
    public let path: String

    public init() throws {
        var template = Array("/tmp/mt-test-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw POSIXError(.EIO) }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    deinit { remove() }

    public func remove() { try? FileManager.default.removeItem(atPath: path) }

    /// Writes a file and returns its path.
    @discardableResult
    public func write(_ data: Data, to name: String) throws -> String {
        let file = "\(path)/\(name)"
        try FileManager.default.createDirectory(
            atPath: (file as NSString).deletingLastPathComponent,
            withIntermediateDirectories: true
        )
        try data.write(to: URL(fileURLWithPath: file))
        return file
    }

    /// All files beneath it, as relative paths, sorted.
    public var files: [String] {
        let all = FileManager.default.enumerator(atPath: path)?.compactMap { $0 as? String } ?? []
        return all.filter { name in
            var isDirectory: ObjCBool = false
            return FileManager.default.fileExists(atPath: "\(path)/\(name)", isDirectory: &isDirectory)
                && !isDirectory.boolValue
        }.sorted()
    }

    /// Returns once the directory has the file. Uses inotify instead of polling.
    public func waitForFile(named name: String) async throws {
        let path = path
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            let thread = Thread {
                let descriptor = inotify_init1(Int32(IN_CLOEXEC))
                defer { close(descriptor) }
                guard descriptor >= 0, inotify_add_watch(descriptor, path, UInt32(IN_CREATE | IN_MOVED_TO)) >= 0 else {
                    continuation.resume(throwing: POSIXError(.EIO))
                    return
                }
                var buffer = [UInt8](repeating: 0, count: 4096)
                while !FileManager.default.fileExists(atPath: "\(path)/\(name)") {
                    guard read(descriptor, &buffer, buffer.count) > 0 else {
                        continuation.resume(throwing: POSIXError(.EIO))
                        return
                    }
                }
                continuation.resume()
            }
            thread.start()
        }
    }
}
