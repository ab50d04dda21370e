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
            resolver = SentinelResolver(sentinel, connectTimeout: configuration.connectTimeout)
        case .tcp, .unix:
            resolver = nil
        }
    }

    /// Makes one attempt within the connect timeout. Names are resolved and sentinels asked again each time.
    func connect() async throws(RedisError) -> RedisConnection {
        let loop = group.next()
        let deadline = NIODeadline.now() + TimeAmount(configuration.connectTimeout)
        let endpoint = try await endpoint(on: loop)
        do throws(RedisError) {
            return try await connect(to: endpoint, on: loop, before: deadline)
        } catch {
            resolver?.doubtLastAnswer()
            throw error
        }
    }

    private func endpoint(on loop: any EventLoop) async throws(RedisError) -> RedisEndpoint {
        switch configuration.address {
        case .tcp(let host, let port): return .tcp(host: host, port: port)
        case .unix(let path): return .unix(path: path)
        case .sentinel:
            guard let resolver else { preconditionFailure("the initializer makes a resolver for this address") }
            return try await resolver.resolve(on: loop)
        }
    }

    private func connect(
        to endpoint: RedisEndpoint,
        on loop: any EventLoop,
        before deadline: NIODeadline
    ) async throws(RedisError) -> RedisConnection {
        let place = resolver == nil ? "\(configuration)" : "\(endpoint) (according to \(configuration))"
        let connection: RedisConnection
        do {
            connection = try await RedisConnection.open(
                endpoint,
                tls: configuration.usesTLS ? tlsContext() : nil,
                timeout: max(.milliseconds(1), deadline - NIODeadline.now()),
                on: loop
            )
        } catch {
            throw RedisError(
                .unreachable,
                "No Redis at \(place): \(RedisConnection.describe(error)). Is it running, and is the URL right?"
            )
        }
        do throws(RedisError) {
            let greeting = RedisGreeting(configuration, name: name, place: place)
            let replies = try await connection.send(greeting.commands, deadline: deadline)
            try greeting.check(replies)
        } catch {
            connection.close()
            throw Self.hinting(error, usesTLS: configuration.usesTLS, place: place)
        }
        return connection
    }

    /// Names the server that refuses a password, and adds a hint to errors that a TLS mismatch may cause: a server that
    /// expects TLS closes a plain connection, and one that does not expect it waits for the rest of a command.
    private static func hinting(_ error: RedisError, usesTLS: Bool, place: String) -> RedisError {
        switch error.code {
        // The server speaks TLS, and the message explains the problem with its certificate.
        case .connectionClosed where error.message.contains("CERTIFICATE"): error
        case .timeout where usesTLS, .connectionClosed where usesTLS:
            RedisError(error.code, "\(error.message) Does \(place) speak TLS? A plain port needs redis:// in the URL.")
        case .connectionClosed:
            RedisError(error.code, "\(error.message) If \(place) expects TLS, the URL begins with rediss://.")
        case .authentication:
            RedisError(
                .authentication,
                "The Redis at \(place) refused the connection. \(error.message) Its URL needs the right user and "
                    + "password, as in redis://user:password@host; @, / and : in them are percent-encoded."
            )
        default: error
        }
    }

    private func tlsContext() throws -> NIOSSLContext {
        var settings = TLSConfiguration.makeClientConfiguration()
        if let file = configuration.certificateAuthority { settings.trustRoots = .file(file) }
        return try NIOSSLContext(configuration: settings)
    }
}
