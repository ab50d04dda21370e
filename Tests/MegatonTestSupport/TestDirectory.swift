public import Foundation
import Synchronization

/// A temporary directory for one test, with a path short enough for sockets.
public final class TestDirectory: Sendable {
    public let path: String
    private let isKept = Mutex(false)

    public init() throws {
        var template = Array("/tmp/mt-test-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw POSIXError(.EIO) }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    deinit { if !isKept.withLock({ $0 }) { remove() } }

    /// Leaves the directory to people who want to see what a run has left.
    public func keep() { isKept.withLock { $0 = true } }

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

    /// Returns once the directory has the file.
    public func waitForFile(named name: String) async throws {
        let path = path
        try await Self.wait(for: IN_CREATE | IN_MOVED_TO, at: path) {
            FileManager.default.fileExists(atPath: "\(path)/\(name)")
        }
    }

    /// Returns once the content of a file fulfils a condition, or the last of its writers has closed it.
    static func waitForContent(of file: String, until condition: @escaping @Sendable (String) -> Bool) async throws {
        try await wait(for: IN_MODIFY, at: file) {
            condition((try? String(contentsOfFile: file, encoding: .utf8)) ?? "")
        }
    }

    /// Waits until a condition holds that can only change with these events, or a file that is watched is closed. Uses
    /// inotify instead of polling.
    private static func wait(
        for events: Int32,
        at path: String,
        until condition: @escaping @Sendable () -> Bool
    ) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            let thread = Thread {
                let descriptor = inotify_init1(Int32(IN_CLOEXEC))
                defer { close(descriptor) }
                let mask = UInt32(events | IN_CLOSE_WRITE)
                guard descriptor >= 0, inotify_add_watch(descriptor, path, mask) >= 0 else {
                    continuation.resume(throwing: POSIXError(.EIO))
                    return
                }
                var buffer = [UInt8](repeating: 0, count: 4096)
                while !condition() {
                    let count = read(descriptor, &buffer, buffer.count)
                    guard count > 0 else {
                        continuation.resume(throwing: POSIXError(.EIO))
                        return
                    }
                    if Self.hasClosed(buffer[..<count]) { break }
                }
                continuation.resume()
            }
            thread.start()
        }
    }

    /// Whether one of the events is about the watched file itself, and is that it was closed. Events about files of a
    /// watched directory have a name.
    private static func hasClosed(_ events: ArraySlice<UInt8>) -> Bool {
        var rest = events
        while rest.count >= MemoryLayout<inotify_event>.size {
            let event = rest.withUnsafeBytes { $0.loadUnaligned(as: inotify_event.self) }
            if event.len == 0 && event.mask & UInt32(IN_CLOSE_WRITE) != 0 { return true }
            rest = rest.dropFirst(MemoryLayout<inotify_event>.size + Int(event.len))
        }
        return false
    }
}
