#if DEBUG || MEGATON_FUZZ
    import Foundation

    @testable import MegatonHTTP
    @testable import MegatonPipeline

    /// Addresses as text and as bytes: a text is an address or is rejected, an address survives a round trip, and the
    /// policy refuses exactly the special addresses.
    public struct AddressFuzz: FuzzTarget {
        public let name = "address"
        public let words = [
            ".", ":", "::", "127.0.0.1", "::ffff:", "0x7f", "0177", "%eth0", "%25", "/8", "[", "]", "\0", "64:ff9b::",
            "2002:", "255", "fe80::", "٣", "１",
        ]
        public let seeds: [[UInt8]] = [
            "127.0.0.1", "8.8.8.8", "::1", "2606:4700:4700::1111", "::ffff:10.0.0.1", "2002:7f00:1::",
            "64:ff9b::7f00:1",
            "2001:0:1:2:3:4:80ff:fffe", "fe80::5efe:c0a8:101", "0000:0000:0000:0000:0000:ffff:192.168.100.228",
        ].map { Array($0.utf8) }

        public init() {}

        public func generate(using random: inout SeededGenerator) -> [UInt8] {
            let bytes = AddressOracle.address(using: &random)
            return random.once(in: 2) ? bytes : Array(IPAddress(bytes: bytes).description.utf8)
        }

        public func check(_ input: [UInt8]) throws {
            for count in [4, 16] where input.count >= count {
                try check(IPAddress(bytes: Array(input.prefix(count))))
            }
            let text = String(decoding: input, as: UTF8.self)
            guard let address = IPAddress(text) else { return }
            try promise(text.utf8.allSatisfy { $0 > 32 && $0 < 127 }, "\"\(text)\" is taken for \(address)")
            try check(address)
        }

        private func check(_ address: IPAddress) throws {
            try promise(IPAddress(address.description) == address, "\(address) reads back as another address")
            let isSpecial = AddressOracle.isSpecial(address.bytes)
            for port in [80, 443] {
                let validationError = AddressPolicy().validationError(address: address, port: port)
                try promise((validationError != nil) == isSpecial, "\(address): \(validationError ?? "is let pass")")
            }
            try promise(AddressPolicy().validationError(address: address, port: 22) != nil, "\(address): any port")
            try promise(
                AddressPolicy(allowsPrivate: true).validationError(address: address, port: 80) == nil,
                "\(address)"
            )
        }
    }
#endif
