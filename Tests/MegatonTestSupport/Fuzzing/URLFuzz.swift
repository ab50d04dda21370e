#if DEBUG || MEGATON_FUZZ
    import Foundation

    @testable import MegatonHTTP
    @testable import MegatonPipeline

    /// Untrusted URLs. If the policy allows a URL, libcurl uses the same scheme, host and port, and no user. If the
    /// host is an address in any notation that the resolver accepts, the address policy knows its class.
    public struct URLFuzz: FuzzTarget {
        public let name = "url"
        public let words = [
            "http://", "https://", "HTTP:", "file:", "data:", "ftp://", "gopher://", "//", "/", "\\", "@", "%40", "%2f",
            "%00", "%25", "%5c", "#", "?", ":", ":80", ":443", ":0", ":65616", "[", "]", "[::1]", "[::ffff:7f00:1]",
            "127.1",
            "0x7f000001", "0177.0.0.1", "2130706433", "localhost", "example.com", "%6c", "。", "．", "１２７", "ⓛ", "xn--",
            "\t", "\n", "\r", " ", "\0", "[fe80::1%25eth0]", "user:pw@", ";base64,", ".",
        ]
        public let seeds: [[UInt8]] = [
            "https://example.com/a/b%20c.jpg?x=1#y", "http://example.com:80/", "http://127.0.0.1/",
            "http://[::1]:443/a",
            "http://0x7f.1/", "http://2130706433/", "http://user@example.com/", "http://example.com%2f@evil.test/",
            "file:///srv/a.png", "data:image/png;base64,AAEC", "http://bücher.example/",
            "http://example.com\\@evil.test/",
            "http://[::ffff:127.0.0.1]/", "http://1.2.3.4.:443/..;/", "HTTPS://EXAMPLE.COM", "http://a/?@b/",
        ].map { Array($0.utf8) }

        public init() {}

        public func generate(using random: inout SeededGenerator) -> [UInt8] {
            let schemes = ["http://", "http://", "https://", "HtTp://", "http:/", "http:", "http:///", "//", "ftp://"]
            let users = [
                "", "", "", "a@", "a:b@", "@", ":@", "a%40", "example.com\\@", "example.com#@", "example.com?@",
            ]
            let ports = ["", "", ":80", ":443", ":8080", ":", ":080", ":0", ":65536", ":-1", ":80@", ":8 0"]
            let ends = ["", "/", "/a.jpg", "?a", "#b", "/..//", "\\a", "/@c", ";d", "/%00", "/\u{202E}"]
            let text =
                random.pick(schemes) + random.pick(users) + host(&random) + random.pick(ports) + random.pick(ends)
            return Array(text.utf8)
        }

        /// A name, or an address in one of the notations that `inet_aton` accepts.
        private func host(_ random: inout SeededGenerator) -> String {
            let names = [
                "example.com", "example.com.", "localhost", "a_b", "-", "..", "xn--bcher-kva.example", "bücher", "%61",
            ]
            if random.once(in: 3) { return random.pick(names) }
            let bytes = AddressOracle.address(using: &random)
            guard bytes.count == 4 else {
                return "[\(IPAddress(bytes: bytes))\(random.pick(["", "", "%251", "%eth0"]))]"
            }
            func number(_ value: UInt32) -> String {
                switch Int.random(in: 0..<4, using: &random) {
                case 0: "0x" + String(value, radix: 16)
                case 1: "0" + String(value, radix: 8)
                default: String(value)
                }
            }
            let whole = bytes.reduce(0 as UInt32) { $0 << 8 | UInt32($1) }
            let text =
                switch Int.random(in: 0..<4, using: &random) {
                case 0: number(whole)
                case 1: "\(number(whole >> 24)).\(number(whole & 0xFF_FFFF))"
                case 2: "\(number(whole >> 24)).\(number(whole >> 16 & 255)).\(number(whole & 0xFFFF))"
                default: bytes.map { number(UInt32($0)) }.joined(separator: ".")
                }
            return text + random.pick(["", "", "", "."])
        }

        public func check(_ input: [UInt8]) throws {
            guard let url = URL(string: String(decoding: input, as: UTF8.self)) else { return }
            do throws(ImagePipeline.Error) {
                try URLPolicy().check(url)
            } catch {
                let isKnown = error.code == .invalidURL || error.code == .forbidden
                return try promise(isKnown && !error.message.isEmpty, "\(url): \(error)")
            }
            let scheme = url.scheme?.lowercased() ?? ""
            try promise(URLPolicy().schemes.contains(scheme), "\(url) has passed")
            if scheme == "data" { _ = try? DataURL.decode(url) }
            guard scheme == "http" || scheme == "https" else { return }
            try checkAsCurlDoes(url)
        }

        private func checkAsCurlDoes(_ url: URL) throws {
            let text = url.absoluteString
            // A URL that libcurl rejects is not fetched.
            guard let curl = CurlURL(text) else { return }
            try promise(curl[.scheme] == url.scheme?.lowercased(), "\(text): another scheme for curl")
            try promise(curl[.user] == nil && curl[.password] == nil, "\(text): a user for curl")
            let port = url.port ?? (url.scheme?.lowercased() == "http" ? 80 : 443)
            try promise(curl[.port] == String(port), "\(text): another port for curl")

            let seen = Self.plain(url.host(percentEncoded: false) ?? "")
            let asked = Self.plain(curl[.host] ?? "")
            let (seenAddress, askedAddress) = (Self.resolve(seen), Self.resolve(asked))
            try promise(
                seen == asked || (seenAddress != nil && seenAddress == askedAddress),
                "\(text): \(seen), \(asked)"
            )
            if let askedAddress {
                let isRefused = AddressPolicy().validationError(address: askedAddress, port: 80) != nil
                try promise(isRefused == AddressOracle.isSpecial(askedAddress.bytes), "\(text): \(askedAddress) passes")
            }
        }

        /// Lower case, without the brackets and the zone of IPv6.
        private static func plain(_ host: String) -> String {
            String(host.lowercased().drop { $0 == "[" }.prefix { $0 != "%" && $0 != "]" })
        }

        /// The address that the resolver parses from a text without a DNS query.
        private static func resolve(_ host: String) -> IPAddress? {
            var hints = addrinfo()
            hints.ai_flags = AI_NUMERICHOST
            hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
            var found: UnsafeMutablePointer<addrinfo>?
            guard getaddrinfo(host, nil, &hints, &found) == 0, let found else { return nil }
            defer { freeaddrinfo(found) }
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            let length = socklen_t(text.count)
            guard
                getnameinfo(found.pointee.ai_addr, found.pointee.ai_addrlen, &text, length, nil, 0, NI_NUMERICHOST) == 0
            else { return nil }
            let name = String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            return AddressOracle.bytes(of: String(name.prefix { $0 != "%" })).map { IPAddress(bytes: $0) }
        }
    }
#endif
