import Foundation

/// Addresses outside the public network, defined independently of `IPAddress`: as the prefixes of the IANA
/// special-purpose registries (RFC 6890).
enum AddressOracle {
    /// A range of addresses: `10.0.0.0/8`.
    struct Prefix {
        let bytes: [UInt8]
        let length: Int

        init(_ text: String) {
            let parts = text.split(separator: "/").map(String.init)
            bytes = AddressOracle.bytes(of: parts[0]) ?? []
            length = Int(parts[1]) ?? 0
        }

        func contains(_ address: [UInt8]) -> Bool {
            guard address.count == bytes.count else { return false }
            for index in 0..<(length / 8) where address[index] != bytes[index] { return false }
            guard length % 8 > 0 else { return true }
            return (address[length / 8] ^ bytes[length / 8]) >> UInt8(8 - length % 8) == 0
        }

        /// An address in the range, with the bits after the prefix random, all 0 or all 1.
        func address(using random: inout SeededGenerator) -> [UInt8] {
            let filling = random.pick([[UInt8](repeating: 0, count: 16), .init(repeating: 255, count: 16)])
            let tail = random.once(in: 2) ? filling : random.bytes(16)
            var address = bytes
            for bit in length..<(bytes.count * 8) where tail[bit / 8] & (0x80 >> UInt8(bit % 8)) != 0 {
                address[bit / 8] |= 0x80 >> UInt8(bit % 8)
            }
            return address
        }
    }

    static let v4 = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
    ].map(Prefix.init)

    static let v6 = [
        "::/128", "::1/128", "64:ff9b:1::/48", "100::/64", "2001:100::/24", "2001:80::/25", "2001:40::/26",
        "2001:20::/27", "2001:10::/28", "2001:8::/29", "2001:4::/30", "2001:2::/31", "2001:1::/32", "2001:db8::/32",
        "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    ].map(Prefix.init)

    /// IPv6 prefixes whose addresses carry an IPv4 address, with its offset, and whether its bits are inverted: mapped,
    /// compatible, NAT64, 6to4, Teredo.
    static let carriers: [(prefix: Prefix, offset: Int, isInverted: Bool)] = [
        ("::ffff:0:0/96", 12, false), ("::/96", 12, false), ("64:ff9b::/96", 12, false), ("2002::/16", 2, false),
        ("2001::/32", 12, true),
    ].map { (Prefix($0.0), $0.1, $0.2) }

    static func isSpecial(_ address: [UInt8]) -> Bool {
        if address.count == 4 { return v4.contains { $0.contains(address) } }
        var carried = carriers.filter { $0.prefix.contains(address) }.map { carrier in
            address[carrier.offset..<(carrier.offset + 4)].map { carrier.isInverted ? ~$0 : $0 }
        }
        // ISATAP: ::0:5efe:w.x.y.z and ::200:5efe:w.x.y.z after any prefix (RFC 5214 section 6.1); other values of the
        // first octet's bits are treated alike.
        if Array(address[9...11]) == [0, 0x5E, 0xFE] { carried.append(Array(address[12...])) }
        return v6.contains { $0.contains(address) } || carried.contains { isSpecial($0) }
    }

    /// The bytes of a dotted or colon-separated address.
    static func bytes(of text: String) -> [UInt8]? {
        var v4 = in_addr()
        var v6 = in6_addr()
        if inet_pton(AF_INET, text, &v4) == 1 { return withUnsafeBytes(of: v4) { Array($0) } }
        if inet_pton(AF_INET6, text, &v6) == 1 { return withUnsafeBytes(of: v6) { Array($0) } }
        return nil
    }

    /// A random address, often at the edge of a special range or within another form.
    static func address(using random: inout SeededGenerator) -> [UInt8] {
        let v4 = random.once(in: 4) ? random.bytes(4) : random.pick(Self.v4).address(using: &random)
        switch Int.random(in: 0..<5, using: &random) {
        case 0, 1: return random.once(in: 2) ? v4 : neighbour(of: v4, &random)
        case 2: return neighbour(of: random.pick(v6).address(using: &random), &random)
        case 3:
            let carrier = random.pick(carriers)
            var address = carrier.prefix.address(using: &random)
            address.replaceSubrange(
                carrier.offset..<(carrier.offset + 4),
                with: v4.map { carrier.isInverted ? ~$0 : $0 }
            )
            return address
        default: return [0x2A] + random.bytes(7) + [random.pick([0, 2, 1]), 0, 0x5E, 0xFE] + v4
        }
    }

    /// The same address, one less or one more.
    private static func neighbour(of address: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
        var address = address
        let step = random.pick([0, 1, 255] as [UInt8])
        for index in address.indices.reversed() where step != 0 {
            address[index] &+= step
            if address[index] != (step == 1 ? 0 : 255) { break }
        }
        return address
    }
}
