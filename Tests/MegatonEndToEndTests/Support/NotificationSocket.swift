import Foundation

/// A socket in the place of that of a service manager: `NOTIFY_SOCKET` names it.
final class NotificationSocket: Sendable {
    private let descriptor: Int32

    /// - Parameter address: path of the socket, or `@` and an abstract name.
    init(_ address: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var own = sockaddr_un()
        own.sun_family = sa_family_t(AF_UNIX)
        var name = Array(address.utf8)
        // The terminator of a path is part of its name, and an abstract name has none.
        if name.first == UInt8(ascii: "@") { name[0] = 0 } else { name.append(0) }
        guard name.count <= MemoryLayout.size(ofValue: own.sun_path) else { throw POSIXError(.ENAMETOOLONG) }
        withUnsafeMutableBytes(of: &own.sun_path) { $0.copyBytes(from: name) }
        let size = socklen_t(MemoryLayout<sa_family_t>.size + name.count)
        let code = withUnsafePointer(to: &own) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) }
        }
        guard code == 0 else { throw POSIXError(.EADDRNOTAVAIL) }
    }

    deinit { close(descriptor) }

    /// The next notification. If the waiting task is cancelled, for example by a test's time limit, it is empty.
    func next() async -> String? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // The thread keeps the socket open.
                let thread = Thread { [self] in continuation.resume(returning: received()) }
                thread.start()
            }
        } onCancel: {
            // Receives nothing from now on (SHUT_RD), so that the thread ends.
            shutdown(self.descriptor, 0)
        }
    }

    /// The notifications that have come and were not read yet.
    func rest() -> [String] {
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        defer { _ = fcntl(descriptor, F_SETFL, 0) }
        var all: [String] = []
        while let text = received() { all.append(text) }
        return all
    }

    private func received() -> String? {
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = read(descriptor, &bytes, bytes.count)
        return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}
