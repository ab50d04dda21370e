internal import Foundation

/// An IPv4 or IPv6 address.
public struct IPAddress: Sendable, Hashable, CustomStringConvertible {
    /// 4 or 16 bytes, network order.
    let bytes: [UInt8]

    /// - Parameter bytes: 4 or 16 of them, network order.
    init(bytes: [UInt8]) {
        precondition(bytes.count == 4 || bytes.count == 16, "an address has 4 or 16 bytes")
        self.bytes = bytes
    }

    /// Parses `192.0.2.1` or `2001:db8::1`.
    public init?(_ text: String) {
        // C reads the text only up to a NUL.
        guard !text.utf8.contains(0) else { return nil }
        var v4 = in_addr()
        var v6 = in6_addr()
        if inet_pton(AF_INET, text, &v4) == 1 {
            self.init(bytes: withUnsafeBytes(of: v4) { Array($0) })
        } else if inet_pton(AF_INET6, text, &v6) == 1 {
            self.init(bytes: withUnsafeBytes(of: v6) { Array($0) })
        } else {
            return nil
        }
    }

    public var description: String {
        var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let family = bytes.count == 4 ? AF_INET : AF_INET6
        guard inet_ntop(family, bytes, &buffer, socklen_t(buffer.count)) != nil else { return "?" }
        return String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Special purpose that the address is reserved for; nil for a public address.
    var specialPurpose: String? {
        bytes.count == 4 ? Self.specialPurposeV4(bytes) : specialPurposeV6
    }

    private static func specialPurposeV4(_ bytes: [UInt8]) -> String? {
        switch (bytes[0], bytes[1], bytes[2]) {
        case (0, _, _): "of this network (RFC 791)"
        case (10, _, _), (172, 16...31, _), (192, 168, _): "private (RFC 1918)"
        case (100, 64...127, _): "shared by a carrier's NAT (RFC 6598)"
        case (127, _, _): "loopback (RFC 1122)"
        case (169, 254, _): "link-local (RFC 3927)"
        case (192, 0, 0): "for protocol assignments (RFC 6890)"
        case (192, 0, 2), (198, 51, 100), (203, 0, 113): "for documentation (RFC 5737)"
        case (192, 88, 99): "a 6to4 relay (RFC 7526)"
        case (198, 18...19, _): "for benchmarks (RFC 2544)"
        case (224...239, _, _): "multicast (RFC 5771)"
        case (240...255, _, _): "reserved (RFC 1112)"
        default: nil
        }
    }

    private var specialPurposeV6: String? {
        if bytes.allSatisfy({ $0 == 0 }) { return "unspecified (RFC 4291)" }
        if bytes.dropLast().allSatisfy({ $0 == 0 }) && bytes[15] == 1 { return "loopback (RFC 4291)" }
        for (kind, v4) in embedded {
            // The purpose of an embedded IPv4 address applies. IPv4-compatible and ISATAP addresses have no public use.
            if let special = Self.specialPurposeV4(v4) { return "\(special), as \(kind)" }
        }
        switch (bytes[0], bytes[1]) {
        // The position of the IPv4 address depends on the network's own prefix (RFC 6052 section 2.2).
        case (0x00, 0x64) where bytes[2..<6] == [0xFF, 0x9B, 0, 1]: return "a NAT64 of this network (RFC 8215)"
        case (0xFC...0xFD, _): return "private (RFC 4193)"
        case (0xFE, 0x80...0xBF): return "link-local (RFC 4291)"
        case (0xFE, 0xC0...0xFF): return "site-local (RFC 3879)"
        case (0xFF, _): return "multicast (RFC 4291)"
        case (0x01, 0x00) where bytes[2..<8].allSatisfy({ $0 == 0 }): return "a discard address (RFC 6666)"
        case (0x20, 0x01) where bytes[2] == 0x0D && bytes[3] == 0xB8: return "for documentation (RFC 3849)"
        case (0x20, 0x01) where bytes[2] < 2 && (bytes[2] != 0 || bytes[3] != 0):
            return "for protocol assignments (RFC 2928)"
        case (0x3F, 0xFF) where bytes[2] < 0x10: return "for documentation (RFC 9637)"
        case (0x5F, 0x00): return "of segment routing (RFC 9602)"
        default: return nil
        }
    }

    /// IPv4 addresses embedded in an IPv6 address.
    private var embedded: [(kind: String, v4: [UInt8])] {
        var found: [(String, [UInt8])] = []
        let tail = Array(bytes[12...])
        if bytes[..<10].allSatisfy({ $0 == 0 }) && bytes[10] == 0xFF && bytes[11] == 0xFF {
            found.append(("IPv4-mapped", tail))
        }
        if bytes[..<12].allSatisfy({ $0 == 0 }) { found.append(("IPv4-compatible", tail)) }
        if bytes[..<12] == [0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0] { found.append(("NAT64", tail)) }
        if bytes[..<2] == [0x20, 0x02] { found.append(("6to4", Array(bytes[2..<6]))) }
        if bytes[..<4] == [0x20, 0x01, 0, 0] { found.append(("Teredo", tail.map { ~$0 })) }
        if bytes[9...11] == [0, 0x5E, 0xFE] { found.append(("ISATAP", tail)) }
        return found
    }
}
