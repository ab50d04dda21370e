import FoundationEssentials

extension RedisConfiguration {
    /// The scheme of a URL of sentinels, as its first characters; nil for other URLs. The variants with a plus sign are
    /// not documented, but other clients have them.
    static func sentinelScheme(of text: String) -> String? {
        let lowercased = text.lowercased()
        return ["redis-sentinel://", "rediss-sentinel://", "redis+sentinel://", "rediss+sentinel://"]
            .first { lowercased.hasPrefix($0) }
    }

    /// Parses `redis-sentinel://[user:password@]host[:port],…/name[?db=…&sentinel-username=…&sentinel-password=…]`, and
    /// `rediss-sentinel://`, which uses TLS to the sentinels and to Redis, with the options `ca`, `cert` and `key`.
    ///
    /// No message quotes the URL: if a password is not percent-encoded, its parts may appear anywhere in it.
    init(sentinelURL text: String, scheme: String) throws(RedisError) {
        let isTLS = scheme.hasPrefix("rediss")
        let parts = text.dropFirst(scheme.count)
        let authority = parts.prefix { !"/?#".contains($0) }
        let at = authority.lastIndex(of: "@")
        let list = at.map { authority[authority.index(after: $0)...] } ?? authority
        let hosts = try Self.hosts(list, "sentinels", defaultPort: Sentinel.Host.defaultPort)
        let user = at.map { authority[...$0] } ?? ""
        // `URLComponents` supports one host only, so the list of hosts is replaced by one.
        let rest = parts[authority.endIndex...]
        guard let url = URLComponents(string: "redis://\(user)h\(rest)"), url.host == "h", url.fragment == nil else {
            throw RedisError(
                .invalidConfiguration,
                "A sentinel URL must look like redis-sentinel://user:password@host:26379,host:26379/name?db=0, with "
                    + "the special characters of a password percent-encoded."
            )
        }
        let name = String(url.path.dropFirst())
        guard !name.isEmpty, !name.contains("/") else {
            throw RedisError(
                .invalidConfiguration,
                "A sentinel URL needs the master's name as its only path: redis-sentinel://host:26379/name."
            )
        }
        var sentinel = Sentinel(hosts: hosts, name: name)
        var database = 0
        var files = RedisConfiguration(address: .sentinel(sentinel))
        for item in url.queryItems ?? [] {
            switch item.name {
            case "ca" where isTLS, "cert" where isTLS, "key" where isTLS: files.setTLSOption(item.name, item.value)
            case "db": database = try Self.database(item.value ?? "")
            case "sentinel-username": sentinel.username = item.value
            case "sentinel-password": sentinel.password = item.value
            default:
                throw RedisError(
                    .invalidConfiguration,
                    "A sentinel URL has only the options db, sentinel-username and sentinel-password, and with "
                        + "rediss-sentinel:// also ca, cert and key."
                )
            }
        }
        guard sentinel.username == nil || sentinel.password != nil else {
            throw RedisError(
                .invalidConfiguration,
                "A sentinel URL with sentinel-username needs sentinel-password too."
            )
        }
        try files.checkClientCertificate()
        self = files
        address = .sentinel(sentinel)
        usesTLS = isTLS
        self.database = database
        username = url.user.flatMap { $0.isEmpty ? nil : $0 }
        password = url.password
    }

    /// - Parameter kind: of the servers, for the message.
    static func hosts(_ list: Substring, _ kind: String, defaultPort: Int) throws(RedisError) -> [Sentinel.Host] {
        var hosts: [Sentinel.Host] = []
        for text in list.split(separator: ",", omittingEmptySubsequences: false) {
            guard let host = host(text, defaultPort) else {
                throw RedisError(
                    .invalidConfiguration,
                    "Number \(hosts.count + 1) of the \(kind) in the Redis URL is not a host or host:port."
                )
            }
            hosts.append(host)
        }
        return hosts
    }

    private static func host(_ text: Substring, _ defaultPort: Int) -> Sentinel.Host? {
        let name: Substring
        let rest: Substring
        var allowed = ".-_"
        if text.first == "[" {
            guard let end = text.firstIndex(of: "]") else { return nil }
            name = text[..<end].dropFirst()
            rest = text[end...].dropFirst()
            allowed = ".:"
        } else {
            name = text.prefix { $0 != ":" }
            rest = text[name.endIndex...]
        }
        let isName = name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) || allowed.contains($0) }
        guard !name.isEmpty, isName else { return nil }
        if rest.isEmpty { return Sentinel.Host(host: String(name), port: defaultPort) }
        guard rest.first == ":", let port = UInt16(rest.dropFirst()), port > 0 else { return nil }
        return Sentinel.Host(host: String(name), port: Int(port))
    }
}
