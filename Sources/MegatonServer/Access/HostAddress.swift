internal import Foundation

/// The bytes of an IP address that is given as text.
///
/// An IPv4 address in IPv6 (`::ffff:192.0.2.1`) is the IPv4 address: the system reports clients so if it listens for
/// both.
struct HostAddress: Sendable, Hashable {
    /// 4 or 16 bytes, network order.
    let bytes: [UInt8]

    /// Nil for a name, and for a short form such as `127.1`.
    init?(_ text: String) {
        // C reads the text only up to a NUL.
        guard !text.utf8.contains(0) else { return nil }
        // The sizes of `in_addr` and `in6_addr`.
        var v4 = [UInt8](repeating: 0, count: 4)
        var v6 = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &v4) == 1 {
            bytes = v4
        } else if inet_pton(AF_INET6, text, &v6) == 1 {
            let isMapped = v6[..<10].allSatisfy { $0 == 0 } && v6[10] == 0xFF && v6[11] == 0xFF
            bytes = isMapped ? Array(v6[12...]) : v6
        } else {
            return nil
        }
    }

    /// Whether it is in 127.0.0.0/8 or is `::1`.
    var isLoopback: Bool {
        bytes.count == 4 ? bytes[0] == 127 : bytes.dropLast().allSatisfy { $0 == 0 } && bytes.last == 1
    }
}
