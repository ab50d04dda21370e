internal import NIOHTTP1

/// The head of a request of HTTP/1, as far as ``HTTP1Rules`` needs it.
struct HTTP1Head {
    let version: HTTPVersion
    /// Whether the method is HEAD, the response to which has no body.
    let isHead: Bool
    /// Whether the connection stays open for another request.
    let keepsConnection: Bool
    /// Whether the client wants another protocol, which the server does not speak: it answers, and the connection ends
    /// (RFC 9110 sections 7.8 and 9.3.6). The decoder reads no further request, as it takes what follows for that
    /// protocol.
    let isUpgrade: Bool
    /// Whether the request has the fields that its version demands. A proxy in front of the server may understand
    /// another one differently than the server.
    ///
    /// - A request of HTTP/1.1 has exactly one field `Host`, and one of HTTP/1.0 at most one (RFC 9112 section 3.2).
    /// - It is a host with or without a port (RFC 9110 section 7.2), or empty.
    /// - A `Transfer-Encoding` is `chunked`: the length of a body is not known otherwise (RFC 9112 section 6.3), and no
    ///   coding is read. HTTP/1.0 has none (section 6.1).
    let isValid: Bool

    init(_ head: HTTPRequestHead) {
        version = head.version
        isHead = head.method == .HEAD
        // At least those that the decoder takes for one: it reads `Proxy-Connection` as the same field.
        let values = head.headers["Connection"] + head.headers["Proxy-Connection"]
        let wantsUpgrade = values.contains { $0.lowercased().contains("upgrade") }
        isUpgrade = head.method == .CONNECT || head.headers.contains(name: "Upgrade") && wantsUpgrade
        keepsConnection = head.isKeepAlive && !isUpgrade
        let (hosts, codings) = (head.headers["Host"], head.headers["Transfer-Encoding"])
        let hasHost = hosts.count == 1 || hosts.isEmpty && head.version != .http1_1
        let isKnownCoding = head.version == .http1_1 && codings.map { $0.lowercased() } == ["chunked"]
        isValid = hasHost && hosts.allSatisfy(Self.isHost) && (codings.isEmpty || isKnownCoding)
    }

    /// Whether a text is a host and a port (RFC 3986 sections 3.2.2 and 3.2.3).
    private static func isHost(_ text: String) -> Bool {
        let bytes = text.utf8
        let rest: Substring.UTF8View
        if bytes.first == UInt8(ascii: "[") {
            guard let end = bytes.firstIndex(of: UInt8(ascii: "]")) else { return false }
            let address = text[bytes.index(after: bytes.startIndex)..<end]
            guard address.contains(":"), HostAddress(String(address)) != nil else { return false }
            rest = bytes[bytes.index(after: end)...]
        } else {
            rest = bytes.drop { TokenFile.isWordByte($0) || otherNameBytes.contains($0) }
        }
        return rest.isEmpty
            || rest.first == UInt8(ascii: ":")
                && rest.dropFirst().allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    /// The bytes of names beside letters, digits, `.`, `-` and `_`.
    private static let otherNameBytes = Set("~%!$&'()*+,;=".utf8)
}
