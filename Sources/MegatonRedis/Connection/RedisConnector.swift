import NIOCore
import NIOSSL

/// Opens connections for a configuration: asks the sentinels if there are any, connects, and sends the greeting.
final class RedisConnector: Sendable {
    private let configuration: RedisConfiguration
    private let name: String
    private let group: any EventLoopGroup
    private let resolver: SentinelResolver?

    /// - Parameter name: shown by CLIENT LIST: `megaton:<role>`.
    init(_ configuration: RedisConfiguration, name: String, group: any EventLoopGroup) {
        self.configuration = configuration
        self.name = name
        self.group = group
        switch configuration.address {
        case .sentinel(let sentinel):
            resolver = SentinelResolver(sentinel, for: configuration)
        case .tcp, .unix, .cluster:
            resolver = nil
        }
    }

    /// Makes one attempt within the connect timeout. Names are resolved and sentinels asked again each time.
    func connect() async throws(RedisError) -> RedisConnection {
        let loop = group.next()
        let deadline = NIODeadline.now() + TimeAmount(configuration.connectTimeout)
        let tls = try RedisTLS(configuration).context()
        let endpoint = try await endpoint(on: loop, tls)
        do throws(RedisError) {
            return try await connect(to: endpoint, tls, on: loop, before: deadline)
        } catch {
            resolver?.doubtLastAnswer()
            throw error
        }
    }

    private func endpoint(on loop: any EventLoop, _ tls: NIOSSLContext?) async throws(RedisError) -> RedisEndpoint {
        switch configuration.address {
        case .tcp(let host, let port): return .tcp(host: host, port: port)
        case .unix(let path): return .unix(path: path)
        case .sentinel:
            guard let resolver else { preconditionFailure("the initializer makes a resolver for this address") }
            return try await resolver.resolve(on: loop, tls: tls)
        case .cluster:
            preconditionFailure("a cluster's nodes have configurations of their own")
        }
    }

    private func connect(
        to endpoint: RedisEndpoint,
        _ tls: NIOSSLContext?,
        on loop: any EventLoop,
        before deadline: NIODeadline
    ) async throws(RedisError) -> RedisConnection {
        let place = resolver == nil ? "\(configuration)" : "\(endpoint) (according to \(configuration))"
        let connection: RedisConnection
        do {
            connection = try await RedisConnection.open(
                endpoint,
                tls: tls,
                timeout: max(.milliseconds(1), deadline - NIODeadline.now()),
                on: loop
            )
        } catch {
            throw RedisError(
                .unreachable,
                "No Redis at \(place): \(RedisConnection.describe(error)). Start it there with \(endpoint.start), if it "
                    + "does not run, or correct the URL."
            )
        }
        do throws(RedisError) {
            let greeting = RedisGreeting(configuration, name: name, place: place)
            let replies = try await connection.send(greeting.commands, deadline: deadline)
            try greeting.check(replies)
        } catch {
            connection.close()
            throw RedisTLS(configuration).explained(error, place: place)
        }
        return connection
    }
}
