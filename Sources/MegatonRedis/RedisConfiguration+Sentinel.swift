extension RedisConfiguration {
    /// Sentinels that know where a master is. They are asked at every attempt to connect.
    public struct Sentinel: Sendable, Equatable {
        /// Where one sentinel listens.
        public struct Host: Sendable, Equatable {
            /// The port sentinels have by default.
            public static let defaultPort = 26_379

            public var host: String
            public var port: Int

            /// A name or an address (IPv6 without brackets), and a port.
            public init(host: String, port: Int = Host.defaultPort) {
                self.host = host
                self.port = port
            }
        }

        public var hosts: [Host]
        /// What the sentinels call the master.
        public var name: String
        /// Of the sentinels; that of the Redis itself is in the configuration.
        public var username: String?
        /// Of the sentinels; that of the Redis itself is in the configuration.
        public var password: String?

        /// Sentinels of one master; they ask for no password if it is nil.
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
    /// `host:port`; an IPv6 address stands in brackets.
    public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
