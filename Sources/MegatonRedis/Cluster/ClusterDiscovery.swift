import NIOCore
import Synchronization

/// Finds out which nodes a cluster has: asks one node after the other for the slots, until one answers.
///
/// It remembers the nodes of the last answer, so that the nodes of the URL may be gone later.
final class ClusterDiscovery: Sendable {
    /// Maximum number of remembered nodes that are asked in one attempt; those of the URL are asked too. They share the
    /// time to connect, and a distant node needs some for TLS.
    private static let maximumAsked = 3
    /// Maximum time for one node to connect and to answer.
    private static let maximumTimeout: Duration = .seconds(1)

    private let configuration: RedisConfiguration
    private let name: String
    private let group: any EventLoopGroup
    private let seeds: [RedisEndpoint]
    private let known = Mutex<[RedisEndpoint]>([])

    /// - Parameters:
    ///   - configuration: its address is a cluster's.
    ///   - name: shown by CLIENT LIST: `megaton:<role>`.
    init(_ configuration: RedisConfiguration, name: String, group: any EventLoopGroup) {
        self.configuration = configuration
        self.name = name
        self.group = group
        if case .cluster(let hosts) = configuration.address {
            seeds = hosts.map { .tcp(host: $0.host, port: $0.port) }
        } else {
            seeds = []
        }
    }

    /// The nodes in the order in which they are asked. It is random: a node that is cut off from the others, and
    /// answers with the slots of an hour ago, is not asked first again.
    private var candidates: [RedisEndpoint] {
        let remembered = Array(known.withLock { $0 }.shuffled().prefix(Self.maximumAsked))
        return remembered + seeds.shuffled().filter { !remembered.contains($0) }
    }

    /// Asks the nodes in turn.
    ///
    /// - Returns: the answer, and the connection to the node that gave it, which the caller closes.
    /// - Throws: `.unreachable` with the error of each node, or a permanent error that all of them gave.
    func ask() async throws(RedisError) -> (connection: RedisConnection, topology: ClusterTopology) {
        let candidates = candidates
        var refusals: [(node: RedisEndpoint, error: RedisError)] = []
        for node in candidates {
            do throws(RedisError) {
                let answer = try await ask(node, within: configuration.connectTimeout / max(1, candidates.count))
                known.withLock { $0 = answer.topology.nodes }
                return answer
            } catch {
                refusals.append((node, error))
                if error.code == .invalidConfiguration { throw error }
            }
        }
        let permanent = [RedisError.Code.authentication, .tls].first { code in
            !refusals.isEmpty && refusals.allSatisfy { $0.error.code == code }
        }
        let said = refusals.map { "\($0.node) (\($0.error.message))" }.joined(separator: ", ")
        throw RedisError(
            permanent ?? .unreachable,
            "No node of the Redis Cluster \(configuration) reported its slots. Asked: \(said)."
        )
    }

    private func ask(
        _ node: RedisEndpoint,
        within share: Duration
    ) async throws(RedisError) -> (connection: RedisConnection, topology: ClusterTopology) {
        var configuration = configuration.node(node)
        configuration.connectTimeout = min(Self.maximumTimeout, share)
        let deadline = NIODeadline.now() + TimeAmount(configuration.connectTimeout)
        let connection = try await RedisConnector(configuration, name: name, group: group).connect()
        do throws(RedisError) {
            let replies = try await connection.send([["CLUSTER", "SLOTS"]], deadline: deadline)
            return (connection, try topology(replies.first ?? .null, node))
        } catch {
            connection.close()
            throw error
        }
    }

    private func topology(_ reply: RedisValue, _ node: RedisEndpoint) throws(RedisError) -> ClusterTopology {
        if case .error(let text) = reply, text.contains("cluster support disabled") {
            throw RedisError(
                .invalidConfiguration,
                "The Redis at \(node) is not a node of a cluster: its cluster-enabled is no. Use redis://\(node) in the "
                    + "URL (rediss:// for TLS)."
            )
        }
        let topology = try ClusterTopology(slots: reply, from: node)
        guard !topology.masters.isEmpty else {
            throw RedisError(
                .busy,
                "no node serves any slot yet. redis-cli --cluster create makes a cluster of nodes."
            )
        }
        return topology
    }
}
