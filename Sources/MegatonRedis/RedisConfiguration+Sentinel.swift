extension RedisConfiguration {
    /// Sentinels that know the address of a master. They are asked on every connection attempt.
    package struct Sentinel: Sendable, Equatable {
        /// The address of one sentinel.
        package struct Host: Sendable, Equatable {
            /// The default port of sentinels.
            package static let defaultPort = 26_379

            package var host: String
            package var port: Int

            /// - Parameters:
            ///   - host: a name or an address, IPv6 without brackets.
            ///   - port: the TCP port.
            package init(host: String, port: Int = Host.defaultPort) {
                self.host = host
                self.port = port
            }
        }

        package var hosts: [Host]
        /// The name of the master, as configured in the sentinels.
        package var name: String
        /// User name for the sentinels; the configuration has that for Redis itself.
        package var username: String?
        /// Password for the sentinels; the configuration has that for Redis itself.
        package var password: String?

        /// Sentinels of one master. A nil password means that they require none.
        package init(hosts: [Host], name: String, username: String? = nil, password: String? = nil) {
            self.hosts = hosts
            self.name = name
            self.username = username
            self.password = password
        }
    }
}

extension RedisConfiguration.Sentinel: CustomStringConvertible {
    /// `host:port,host:port/name`, without user and password.
    package var description: String { hosts.map(\.description).joined(separator: ",") + "/" + name }
}

extension RedisConfiguration.Sentinel.Host: CustomStringConvertible {
    /// `host:port`, with an IPv6 address in brackets.
    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
