extension RedisConfiguration {
    /// Sentinels that know the address of a master. They are asked on every connection attempt.
    public struct Sentinel: Sendable, Equatable {
        /// The address of one sentinel.
        public struct Host: Sendable, Equatable {
            /// The default port of sentinels.
            public static let defaultPort = 26_379

            public var host: String
            public var port: Int

            /// - Parameters:
            ///   - host: a name or an address, IPv6 without brackets.
            ///   - port: the TCP port.
            public init(host: String, port: Int = Host.defaultPort) {
                self.host = host
                self.port = port
            }
        }

        public var hosts: [Host]
        /// The name of the master, as configured in the sentinels.
        public var name: String
        /// User name for the sentinels; the configuration has that for Redis itself.
        public var username: String?
        /// Password for the sentinels; the configuration has that for Redis itself.
        public var password: String?

        /// Sentinels of one master. A nil password means that they require none.
        public init(hosts: [Host], name: String, username: String? = nil, password: String? = nil) {
            self.hosts = hosts
            self.name = name
            self.username = username
            self.password = password
        }
    }
}

extension RedisConfiguration.Sentinel: CustomStringConvertible {
    /// `host:port,host:port/name`, without user and password.
    public var description: String { hosts.map(\.description).joined(separator: ",") + "/" + name }
}

extension RedisConfiguration.Sentinel.Host: CustomStringConvertible {
    /// `host:port`, with an IPv6 address in brackets.
    public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
