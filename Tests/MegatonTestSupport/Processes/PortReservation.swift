import Foundation

/// A loopback port that stays reserved while no server listens on it.
///
/// It holds a socket that is bound and never listens: sockets of the same user with SO_REUSEPORT may listen beside it,
/// others get EADDRINUSE, and without a listener the kernel refuses connections.
public final class PortReservation: Sendable {
    public let port: Int
    private let descriptor: Int32

    public init() throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var isShared: Int32 = 1
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let size = socklen_t(MemoryLayout<Int32>.size)
        let isSet = setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &isShared, size) == 0
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                bind(descriptor, generic, length) == 0 && getsockname(descriptor, generic, &length) == 0
            }
        }
        guard descriptor >= 0, isSet, isBound else {
            close(descriptor)
            throw POSIXError(.EADDRNOTAVAIL)
        }
        self.descriptor = descriptor
        port = Int(UInt16(bigEndian: address.sin_port))
    }

    deinit { close(descriptor) }
}
