/// A range of IP addresses in CIDR notation, such as `10.0.0.0/8`, or one address.
package struct AddressRange: Sendable, Hashable {
    private let bytes: [UInt8]
    /// Number of the first bits that all addresses of the range have in common.
    private let bits: Int

    /// Nil if the text is no address, if the number of bits is too large, or if bits behind them are set: such a range
    /// was probably meant to be another one.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let address = HostAddress(String(first)) else { return nil }
        bytes = address.bytes
        let size = bytes.count * 8
        guard parts.count == 2 else {
            bits = size
            return
        }
        guard parts[1].utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let bits = Int(parts[1]), bits <= size
        else { return nil }
        self.bits = bits
        let rest = (0..<size).dropFirst(bits)
        if rest.contains(where: { bytes[$0 / 8] & 0x80 >> UInt8($0 % 8) != 0 }) { return nil }
    }

    func contains(_ address: HostAddress) -> Bool {
        guard address.bytes.count == bytes.count else { return false }
        let whole = bits / 8
        guard address.bytes[..<whole] == bytes[..<whole] else { return false }
        if bits % 8 == 0 { return true }
        return (address.bytes[whole] ^ bytes[whole]) >> UInt8(8 - bits % 8) == 0
    }
}

/// The address of a client behind proxies that the operator trusts.
struct ForwardedAddress: Sendable {
    let proxies: [AddressRange]

    /// Addresses of `X-Forwarded-For` that are looked at: a client can send any number of them.
    private static let maximumHops = 16

    /// The address nearest to the server that is not one of a trusted proxy. Addresses before that one can be forged.
    ///
    /// - Parameters:
    ///   - peer: address of the connection.
    ///   - forwarded: values of `X-Forwarded-For`, in the order of the request.
    func client(peer: String?, forwarded: [String]) -> String? {
        guard let peer, isTrusted(peer) else { return peer }
        var client = peer
        let hops = forwarded.flatMap { $0.split(separator: ",") }
        for hop in hops.suffix(Self.maximumHops).reversed() {
            guard let address = Self.address(hop) else { break }
            client = address
            if !isTrusted(address) { break }
        }
        return client
    }

    private func isTrusted(_ address: String) -> Bool {
        guard let address = HostAddress(address) else { return false }
        return proxies.contains { $0.contains(address) }
    }

    /// The address of `192.0.2.1`, `192.0.2.1:4000`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:4000`.
    private static func address(_ hop: Substring) -> String? {
        var text = hop.drop { $0 == " " || $0 == "\t" }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        if text.first == "[" {
            text = text.dropFirst().prefix { $0 != "]" }
        } else if let colon = text.firstIndex(of: ":"), text.lastIndex(of: ":") == colon {
            text = text[..<colon]
        }
        let address = String(text)
        return HostAddress(address) == nil ? nil : address
    }
}
