import NIOCore
import NIOSSL
import Synchronization

/// Asks sentinels for the address of their master, one after the other. An answer is used for one attempt only.
///
/// https://redis.io/docs/latest/develop/reference/sentinel-clients/
final class SentinelResolver: Sendable {
    /// Maximum time for one sentinel to connect and to answer.
    private static let maximumTimeout: Duration = .seconds(1)

    private let sentinel: RedisConfiguration.Sentinel
    private let configuration: RedisConfiguration
    private let timeout: Duration
    private let first = Mutex(0)

    /// - Parameter configuration: has the files of TLS, and the timeout of the whole attempt; one share of it is
    ///   reserved for the master itself.
    init(_ sentinel: RedisConfiguration.Sentinel, for configuration: RedisConfiguration) {
        self.sentinel = sentinel
        self.configuration = configuration
        timeout = min(Self.maximumTimeout, configuration.connectTimeout / (sentinel.hosts.count + 1))
    }

    /// The sentinels in the order in which they are asked: first the one that answered last.
    var order: [RedisConfiguration.Sentinel.Host] {
        let start = first.withLock { $0 }
        return Array(sentinel.hosts[start...] + sentinel.hosts[..<start])
    }

    /// Asks the sentinels in turn until one knows the name.
    ///
    /// - Parameter tls: for the connections to the sentinels; nil for plain ones.
    /// - Throws: `.unreachable`, with the error of each sentinel; `.authentication` or `.tls` if all of them refuse the
    ///   password or the handshake.
    func resolve(on loop: any EventLoop, tls: NIOSSLContext? = nil) async throws(RedisError) -> RedisEndpoint {
        var refusals: [(host: RedisConfiguration.Sentinel.Host, error: RedisError)] = []
        for host in order {
            do throws(RedisError) {
                let endpoint = try await ask(host, on: loop, tls)
                first.withLock { $0 = sentinel.hosts.firstIndex(of: host) ?? 0 }
                return endpoint
            } catch {
                refusals.append((host, error))
            }
        }
        guard !refusals.isEmpty else {
            throw RedisError(.invalidConfiguration, "The Redis configuration names no sentinel.")
        }
        let permanent = [RedisError.Code.authentication, .tls].first { code in
            refusals.allSatisfy { $0.error.code == code }
        }
        let said = refusals.map { "\($0.host) (\($0.error.message))" }.joined(separator: ", ")
        throw RedisError(
            permanent ?? .unreachable,
            "No sentinel reported the address of the Redis \"\(sentinel.name)\". Asked: \(said)."
        )
    }

    /// Moves on to another sentinel for the next attempt. The reported address was unreachable or not a master's, so
    /// that the sentinel may be cut off from the others.
    func doubtLastAnswer() {
        guard !sentinel.hosts.isEmpty else { return }
        first.withLock { $0 = ($0 + 1) % sentinel.hosts.count }
    }

    private func ask(
        _ host: RedisConfiguration.Sentinel.Host,
        on loop: any EventLoop,
        _ tls: NIOSSLContext?
    ) async throws(RedisError) -> RedisEndpoint {
        let deadline = NIODeadline.now() + TimeAmount(timeout)
        let connection: RedisConnection
        do {
            connection = try await RedisConnection.open(
                .tcp(host: host.host, port: host.port),
                tls: tls,
                timeout: TimeAmount(timeout),
                on: loop
            )
        } catch {
            throw RedisError(.unreachable, RedisConnection.describe(error))
        }
        defer { connection.close() }
        var commands: [RedisCommand] = []
        if let password = sentinel.password {
            commands.append(RedisGreeting.authentication(user: sentinel.username, password: password))
        }
        commands.append(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", .string(sentinel.name)])
        let replies: [RedisValue]
        do throws(RedisError) {
            replies = try await connection.send(commands, deadline: deadline)
        } catch {
            throw RedisTLS(configuration).explained(error, place: "the sentinel")
        }
        if replies.count == 2, case .error(let text) = replies[0] { throw RedisGreeting.authenticationError(text) }
        guard let answer = replies.last else { throw RedisError(.unexpectedReply, "sent no reply") }
        return try Self.endpoint(answer)
    }

    private static func endpoint(_ answer: RedisValue) throws(RedisError) -> RedisEndpoint {
        if case .error(let text) = answer { throw RedisError(reply: text) }
        if answer == .null { throw RedisError(.unreachable, "does not know this name") }
        guard let address = answer.array, address.count == 2, let host = address[0].string, !host.isEmpty,
            let port = address[1].int
        else { throw RedisError(.unexpectedReply, "sent no valid address") }
        return .tcp(host: host, port: port)
    }
}
