import FoundationEssentials

extension RedisConfiguration {
    /// The scheme of a URL of a cluster, as its first characters; nil for other URLs. The variants with a hyphen are
    /// not documented, but look like the scheme of sentinels.
    static func clusterScheme(of text: String) -> String? {
        let lowercased = text.lowercased()
        return ["redis+cluster://", "rediss+cluster://", "redis-cluster://", "rediss-cluster://"]
            .first { lowercased.hasPrefix($0) }
    }

    /// Parses `redis+cluster://[user:password@]host[:port],…`, and `rediss+cluster://…[?ca=…&cert=…&key=…]`.
    ///
    /// No message quotes the URL: if a password is not percent-encoded, its parts may appear anywhere in it.
    init(clusterURL text: String, scheme: String) throws(RedisError) {
        let isTLS = scheme.hasPrefix("rediss")
        let parts = text.dropFirst(scheme.count)
        let authority = parts.prefix { !"/?#".contains($0) }
        let at = authority.lastIndex(of: "@")
        let list = at.map { authority[authority.index(after: $0)...] } ?? authority
        let hosts = try Self.hosts(list, "nodes", defaultPort: 6379)
        // `URLComponents` supports one host only, so the list of hosts is replaced by one.
        let rest = parts[authority.endIndex...]
        let user = at.map { authority[...$0] } ?? ""
        guard let url = URLComponents(string: "redis://\(user)h\(rest)"), url.host == "h", url.fragment == nil else {
            throw RedisError(
                .invalidConfiguration,
                "A cluster URL must look like redis+cluster://user:password@host:6379,host:6379, with the special "
                    + "characters of a password percent-encoded."
            )
        }
        guard ["", "/", "/0"].contains(url.path) else {
            throw RedisError(
                .invalidConfiguration,
                "A cluster URL has no path: a Redis Cluster has only database 0."
            )
        }
        self.init(address: .cluster(hosts))
        for item in url.queryItems ?? [] {
            guard isTLS, Self.isTLSOption(item.name) else {
                throw RedisError(
                    .invalidConfiguration,
                    "A cluster URL has no options, and rediss+cluster:// only ca, cert and key."
                )
            }
            setTLSOption(item.name, item.value)
        }
        try checkClientCertificate()
        usesTLS = isTLS
        username = url.user.flatMap { $0.isEmpty ? nil : $0 }
        password = url.password
    }

    /// The configuration for one node of this cluster, with the same user and files.
    ///
    /// Half of the time to connect is left for asking another node.
    func node(_ endpoint: RedisEndpoint) -> RedisConfiguration {
        var node = self
        switch endpoint {
        case .tcp(let host, let port): node.address = .tcp(host: host, port: port)
        case .unix(let path): node.address = .unix(path: path)
        }
        node.acceptsClusterNode = true
        // A replica redirects all keys to its master, and may serve a subscriber.
        node.requiresMaster = false
        node.connectTimeout = connectTimeout / 2
        return node
    }
}
