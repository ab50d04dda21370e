internal import Foundation
internal import Logging
internal import MegatonPipeline
package import MegatonRedis

/// The Redis servers of a shared cache. Each key belongs to one of them, with its entry, its flight and its failure.
///
/// The servers are chosen by rendezvous hashing (D. Thaler and C. Ravishankar, "Using Name-Based Mappings to Increase
/// Hit Rates", IEEE/ACM Transactions on Networking 6(1), 1998): each server gets a score for a key from its address and
/// the key, and the highest wins. All processes agree without talking to each other, in whatever order they name the
/// servers; a new server takes over 1/N of the keys, and only the keys of a removed one move.
///
/// The keys of a server that cannot be reached do not move: each request for them works without a cache, as it does if
/// the only server is away. If they moved, processes that see the network differently would lead the same flights on
/// two servers, and the server that returns would answer with entries that were deleted meanwhile.
package struct CacheNodes: Sendable {
    /// One server.
    final class Node: Sendable {
        /// Position in `all`.
        let index: Int
        let redis: RedisClient
        let capacity: CacheCapacity
        private let seed: UInt64

        fileprivate init(_ index: Int, _ redis: RedisClient, _ capacity: CacheCapacity) {
            self.index = index
            self.redis = redis
            self.capacity = capacity
            seed = CacheNodes.number(Checksum.sha256(Data(CacheNodes.name(of: redis.configuration).utf8)))
        }

        fileprivate func score(_ key: UInt64) -> UInt64 { CacheNodes.mixed(key ^ seed) }
    }

    let all: [Node]

    /// - Parameters:
    ///   - clients: at least one, each for another server.
    ///   - statistics: counts entries that are not stored because their server is full; nil counts nothing.
    init(_ clients: [RedisClient], logger: Logger, statistics: StatisticsRecorder?) {
        precondition(!clients.isEmpty, "a shared cache needs at least one Redis")
        all = clients.enumerated().map { index, client in
            Node(index, client, CacheCapacity(of: "\(client.configuration)", logger: logger, statistics: statistics))
        }
    }

    /// The server of a key.
    ///
    /// - Parameter digest: the hash tag of the key's names: at least 16 hex digits of a cryptographic hash.
    subscript(digest: String) -> Node { all[index(of: digest)] }

    subscript(key: CacheKey) -> Node { self[key.digest] }

    /// Checks that no server is named twice: it would get twice its share of the keys.
    ///
    /// - Throws: `.invalidConfiguration`.
    package static func check(_ servers: [RedisConfiguration]) throws(RedisError) {
        var seen: Set<String> = []
        for server in servers where !seen.insert(name(of: server)).inserted {
            throw RedisError(
                .invalidConfiguration,
                "The cache Redis \(server) is named twice; name each server once."
            )
        }
    }

    /// Reads the URLs of the servers.
    static func servers(_ urls: [String]) throws(ClusterError) -> [RedisConfiguration] {
        var servers: [RedisConfiguration] = []
        for url in urls { servers.append(try ClusterError.configuration(url)) }
        do {
            try check(servers)
        } catch {
            throw ClusterError(error)
        }
        return servers
    }

    /// Items in groups of one server each, with their positions.
    func groups<Item>(_ items: [Item], by digest: (Item) -> String) -> [(node: Node, indices: [Int])] {
        if all.count == 1 { return items.isEmpty ? [] : [(all[0], Array(items.indices))] }
        let groups = Dictionary(grouping: items.indices) { index(of: digest(items[$0])) }
        return groups.sorted { $0.key < $1.key }.map { (all[$0.key], $0.value) }
    }

    func close() { for node in all { node.redis.close() } }

    private func index(of digest: String) -> Int {
        if all.count == 1 { return 0 }
        let key = Self.number(digest)
        var (best, highest) = (0, all[0].score(key))
        for index in all.indices.dropFirst() {
            let score = all[index].score(key)
            if score > highest { (best, highest) = (index, score) }
        }
        return best
    }

    /// The name of a server, the same in all processes: its URL without user and password, which may differ between
    /// them and change, and with the hosts of sentinels or of a Redis Cluster in one order.
    private static func name(of server: RedisConfiguration) -> String {
        var server = server
        switch server.address {
        case .cluster(let hosts):
            server.address = .cluster(hosts.sorted { $0.description < $1.description })
        case .sentinel(var sentinel):
            sentinel.hosts.sort { $0.description < $1.description }
            server.address = .sentinel(sentinel)
        case .tcp, .unix: break
        }
        return server.description
    }

    /// The first 64 bits of a digest.
    private static func number(_ digest: String) -> UInt64 { UInt64(digest.prefix(16), radix: 16) ?? 0 }

    /// The finalizer of SplitMix64 (G. Steele, D. Lea and C. Flood, "Fast Splittable Pseudorandom Number Generators",
    /// OOPSLA 2014), which spreads the difference of two seeds over all bits.
    private static func mixed(_ number: UInt64) -> UInt64 {
        var z = number &+ 0x9e37_79b9_7f4a_7c15
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}

extension CacheNodes {
    /// Runs work for groups of items, each with its server, at the same time.
    ///
    /// - Parameter work: returns the results of a group, in its order.
    /// - Returns: the results in the order of the items.
    func perform<Item: Sendable, Result: Sendable>(
        _ items: [Item],
        by digest: (Item) -> String,
        _ work: @escaping @Sendable (Node, [Item]) async -> [Result]
    ) async -> [Result] {
        let groups = groups(items, by: digest)
        if groups.count == 1 { return await work(groups[0].node, items) }
        return await withTaskGroup(of: [(Int, Result)].self) { tasks in
            for (node, indices) in groups {
                tasks.addTask { Array(zip(indices, await work(node, indices.map { items[$0] }))) }
            }
            var results: [(Int, Result)] = []
            for await part in tasks { results += part }
            return results.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }
}
