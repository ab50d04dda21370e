/// Address on which a process listens, such as `127.0.0.1:8090` or `[::1]:8090`.
package struct ListenAddress: Sendable, Equatable, CustomStringConvertible {
    /// Name or IP address, without brackets.
    package let host: String
    /// 0 to 65535; 0 lets the system choose one.
    package let port: Int
    package let description: String

    /// The parts of `address:port`; nil if the text is none.
    package init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (0...65535).contains(port)
        else { return nil }
        let host = text[..<colon].trimmingPrefix("[").prefix { $0 != "]" }
        if host.isEmpty { return nil }
        self.host = String(host)
        self.port = port
        description = text
    }

    private init(host: String, port: Int, description: String) {
        self.host = host
        self.port = port
        self.description = description
    }

    /// The same address with the port that the system has chosen.
    package func with(port: Int) -> ListenAddress {
        let name = host.contains(":") ? "[\(host)]" : host
        return ListenAddress(host: host, port: port, description: "\(name):\(port)")
    }
}

/// A process cannot listen on an address.
package struct ListenError: Error, CustomStringConvertible {
    package let address: ListenAddress
    /// Part of a sentence, such as `Address already in use`.
    package let reason: String

    package var description: String {
        "\(address) cannot be used: \(reason). Choose another address or port."
    }
}
