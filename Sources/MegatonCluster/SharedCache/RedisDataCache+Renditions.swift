package import Foundation
package import Logging
internal import MegatonPipeline
package import MegatonRedis
package import NIOCore

// Renditions for readers that know their keys from outcomes of jobs, and take part in no flight.
extension RedisDataCache {
    /// Creates a cache on some servers, with connections of its own; nothing is sent yet.
    package convenience init(servers: [RedisConfiguration], group: any EventLoopGroup, logger: Logger) {
        self.init(Configuration(), servers: servers, group: group, logger: logger)
    }

    /// Reads renditions, fresh or not.
    ///
    /// - Parameter digests: of the renditions' keys, as in outcomes; any other text is the name of no entry.
    /// - Returns: nil for each rendition that the cache does not have.
    /// - Throws: if a server does not answer: it may have the rendition all the same.
    package func renditions(_ digests: [String]) async throws(RedisError) -> [Data?] {
        var found: [Data?] = digests.map { _ in nil }
        for (node, indices) in nodes.groups(digests, by: { $0 }) {
            let valid = indices.filter { digests[$0].utf8.count == Checksum.sha256Digits }
            if valid.isEmpty { continue }
            let names = valid.map { CacheKeys.rendition(digests[$0]) }
            let replies = try await node.redis.pipeline(names.map { ["HMGET", .string($0), "m", "0"] })
            for ((index, name), reply) in zip(zip(valid, names), replies) {
                if case .error(let text) = reply { throw RedisError(reply: text) }
                guard let fields = reply.array, fields.count == 2 else { continue }
                found[index] = try await read(name, at: node, header: fields[0], first: fields[1])?.data
            }
        }
        return found
    }
}
