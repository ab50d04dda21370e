internal import FoundationEssentials

/// Address of a Redis server, and the options for its connections.
package struct RedisConfiguration: Sendable, Equatable {
    /// The address of the server.
    package enum Address: Sendable, Equatable {
        case tcp(host: String, port: Int)
        case unix(path: String)
        /// The master of this name, at the address that the sentinels report.
        case sentinel(Sentinel)
        /// A Redis Cluster, of which these nodes are asked for the others.
        case cluster([Sentinel.Host])
    }

    package var address: Address
    /// Whether to use TLS (`rediss://`), with the system's certificates as trust roots.
    package var usesTLS = false
    /// Path of a PEM file of certificates to trust instead of the system's, e.g. of a private authority.
    package var certificateAuthority: String?
    /// Path of a PEM file with this client's certificate, followed by those of intermediate authorities. Redis asks for
    /// one unless its `tls-auth-clients` is `no`.
    package var clientCertificate: String?
    /// Path of a PEM file with the private key of ``clientCertificate``, which may be the same file.
    package var clientKey: String?
    package var username: String?
    package var password: String?
    /// The database number, 0 by default.
    package var database = 0
    /// Whether a server that is not a master is refused with `.notWritable`, because after a failover the old address
    /// may belong to a replica. True by default.
    package var requiresMaster = true
    /// Whether the server may be a node of a cluster, which accepts commands for its own slots only. False by default:
    /// without the other nodes such a server is refused with `.invalidConfiguration`.
    package var acceptsClusterNode = false
    /// Maximum duration of a connection attempt: asking the sentinels, connecting and greeting.
    package var connectTimeout: Duration = .seconds(5)
    /// Maximum duration of a command, including the wait for a connection.
    package var commandTimeout: Duration = .seconds(5)

    /// Creates a configuration for an address, without a password.
    package init(address: Address) { self.address = address }

    /// Parses `redis://[user:password@]host[:port][/database]`, `rediss://…[?ca=file.pem&cert=file.pem&key=file.pem]`,
    /// `unix://[user:password@]/path/of/socket[?db=number]`,
    /// `redis-sentinel://[user:password@]host[:port],…/name[?db=number&sentinel-username=…&sentinel-password=…]`,
    /// `redis+cluster://[user:password@]host[:port],…`, or `rediss-sentinel://…` and `rediss+cluster://…` with the
    /// options of TLS. User and password before the hosts are those of Redis itself.
    ///
    /// - Throws: `.invalidConfiguration`, without the password in its message.
    package init(url text: String) throws(RedisError) {
        if let scheme = Self.sentinelScheme(of: text) {
            try self.init(sentinelURL: text, scheme: scheme)
            return
        }
        if let scheme = Self.clusterScheme(of: text) {
            try self.init(clusterURL: text, scheme: scheme)
            return
        }
        guard let url = URLComponents(string: text), let scheme = url.scheme?.lowercased() else {
            throw RedisError(
                .invalidConfiguration,
                "A Redis URL must look like redis://host:6379/0, rediss://host:6380, unix:///path/of/socket, "
                    + "redis-sentinel://host:26379,host:26379/name or redis+cluster://host:6379,host:6379."
            )
        }
        switch scheme {
        case "redis", "rediss":
            guard let host = url.host, !host.isEmpty else {
                throw RedisError(.invalidConfiguration, "The Redis URL \(scheme)://… has no host.")
            }
            try Self.checkPort(of: text)
            let bare = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
            self.init(address: .tcp(host: bare, port: url.port ?? 6379))
            usesTLS = scheme == "rediss"
            for item in url.queryItems ?? [] {
                guard usesTLS || !Self.isTLSOption(item.name) else {
                    throw RedisError(
                        .invalidConfiguration,
                        "The Redis URL redis://… has the option \(item.name), which is for TLS: use rediss://."
                    )
                }
                setTLSOption(item.name, item.value)
            }
            try checkClientCertificate()
            database = try Self.database(String(url.path.drop { $0 == "/" }))
        case "unix", "redis+unix":
            guard url.path.hasPrefix("/"), url.path.count > 1 else {
                throw RedisError(.invalidConfiguration, "A unix: URL of Redis needs an absolute path: unix:///path.")
            }
            self.init(address: .unix(path: url.path))
            database = try Self.database(url.queryItems?.first { $0.name == "db" }?.value ?? "")
        default:
            throw RedisError(
                .invalidConfiguration,
                "\(scheme): is not a scheme for Redis; use redis://, rediss://, unix://, redis-sentinel://, "
                    + "rediss-sentinel://, redis+cluster:// or rediss+cluster://."
            )
        }
        username = url.user.flatMap { $0.isEmpty ? nil : $0 }
        password = url.password
    }

    /// Checks the port as it was written: a number that is too large has no port in `URLComponents`, or another one in
    /// the address of a socket.
    private static func checkPort(of text: String) throws(RedisError) {
        let hosts = text.drop { $0 != ":" }.dropFirst(3).prefix { !"/?#".contains($0) }
        let host = hosts.split(separator: "@", omittingEmptySubsequences: false).last ?? hosts
        let name = host.first == "[" ? host.drop { $0 != "]" }.dropFirst() : host
        guard let colon = name.firstIndex(of: ":") else { return }
        let port = name[colon...].dropFirst()
        if port.isEmpty || UInt16(port).map({ $0 > 0 }) == true { return }
        throw RedisError(
            .invalidConfiguration,
            "The port in the Redis URL is \(port.prefix(20)); it must be 1 to 65535."
        )
    }

    static func database(_ text: String) throws(RedisError) -> Int {
        if text.isEmpty { return 0 }
        guard let number = Int(text), number >= 0 else {
            throw RedisError(
                .invalidConfiguration,
                "The database in the Redis URL, the text behind the first / of its address, is not a number of at least "
                    + "0. A / in a password must be written as %2F."
            )
        }
        return number
    }
}

extension RedisConfiguration {
    /// The name of the user in the ACL of Redis.
    package var user: String { username ?? "default" }
}

extension RedisConfiguration: CustomStringConvertible {
    /// The URL without user and password, safe for logs.
    package var description: String {
        let number = database == 0 ? "" : String(database)
        return switch address {
        case .tcp(let host, let port):
            "\(usesTLS ? "rediss" : "redis")://\(host):\(port)" + (number.isEmpty ? "" : "/" + number)
        case .unix(let path): "unix://\(path)" + (number.isEmpty ? "" : "?db=" + number)
        case .cluster(let hosts):
            (usesTLS ? "rediss" : "redis") + "+cluster://" + hosts.map(\.description).joined(separator: ",")
        case .sentinel(let sentinel):
            (usesTLS ? "rediss" : "redis") + "-sentinel://\(sentinel)" + (number.isEmpty ? "" : "?db=" + number)
        }
    }
}
