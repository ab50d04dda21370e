public import Foundation
public import Logging
public import MegatonPipeline
package import MegatonRedis
internal import NIOCore
internal import NIOPosix

/// A cache that all processes share: `DataCaching` on one or several cache Redis, and the storage of `InFlightLock`.
///
/// If a Redis cannot be reached, every lookup of its entries is a miss: work continues without the cache, and the
/// statistics count the errors. One that is full behaves in the same way, except that its entries are found.
public final class RedisDataCache: DataCaching {
    /// Limits of the cache.
    public struct Configuration: Sendable {
        /// Maximum size of an entry that is stored, bytes.
        public var maximumEntrySize = 32 * 1024 * 1024
        /// Time to live of an entry in Redis, fresh or not. Every key has one, so that `volatile-*` policies can evict
        /// it.
        public var lifetime: Duration = .seconds(30 * 24 * 3600)
        /// Directory of large entries while they are in use: see `ImagePipeline.Configuration.temporaryDirectory`.
        public var temporaryDirectory: URL?

        /// Creates the default configuration.
        public init() {}
    }

    let configuration: Configuration
    let nodes: CacheNodes
    private let logger: Logger
    private let statistics: StatisticsRecorder?

    /// Maximum number of chunks written or read in one command; larger entries are streamed.
    static let chunksAtOnce = 4
    /// Time after which a large entry that is not finished is dropped, ms.
    static let temporaryLifetime = 60_000

    /// Creates a cache on the Redis servers at some URLs; nothing is sent yet.
    ///
    /// - Parameter redis: URLs of the cache Redis, in any order, each of which holds a share of the entries; see
    ///   ``ClusterClient/init(redis:queue:idleTimeout:logger:)``. All processes that share the cache name the same
    ///   ones.
    /// - Throws: ``ClusterError`` if a URL is invalid or named twice, or if there is none.
    public convenience init(
        _ configuration: Configuration = Configuration(),
        redis: [String],
        logger: Logger = Logger(label: "megaton.cache")
    ) throws {
        let servers = try CacheNodes.servers(redis)
        if servers.isEmpty {
            throw ClusterError(.invalidConfiguration, "A shared cache needs the URL of at least one Redis.")
        }
        self.init(configuration, servers: servers, group: MultiThreadedEventLoopGroup.singleton, logger: logger)
    }

    /// Creates a cache on the Redis server at a URL; nothing is sent yet.
    ///
    /// - Parameter redis: URL of the cache Redis; see ``ClusterClient/init(redis:queue:idleTimeout:logger:)``.
    /// - Throws: ``ClusterError`` if the URL is invalid.
    public convenience init(
        _ configuration: Configuration = Configuration(),
        redis: String,
        logger: Logger = Logger(label: "megaton.cache")
    ) throws {
        try self.init(configuration, redis: [redis], logger: logger)
    }

    /// Closes the connections: every later lookup is a miss.
    public func close() { nodes.close() }

    package convenience init(_ configuration: Configuration = Configuration(), redis: RedisClient, logger: Logger) {
        let nodes = CacheNodes([redis], logger: logger, statistics: nil)
        self.init(configuration, nodes: nodes, logger: logger, statistics: nil)
    }

    /// Creates a cache on some servers, with connections of its own.
    convenience init(
        _ configuration: Configuration,
        servers: [RedisConfiguration],
        group: any EventLoopGroup,
        logger: Logger,
        statistics: StatisticsRecorder? = nil
    ) {
        let clients = servers.map { server in
            RedisClient(server, role: "cache", group: group, logger: logger, waitsForReconnect: false)
        }
        let nodes = CacheNodes(clients, logger: logger, statistics: statistics)
        self.init(configuration, nodes: nodes, logger: logger, statistics: statistics)
    }

    private init(_ configuration: Configuration, nodes: CacheNodes, logger: Logger, statistics: StatisticsRecorder?) {
        self.configuration = configuration
        self.nodes = nodes
        self.logger = logger
        self.statistics = statistics
    }

    /// This cache for partial downloads, with a lifetime of one day: older ones are not resumed.
    func forPartials() -> RedisDataCache {
        var configuration = configuration
        configuration.lifetime = .seconds(24 * 3600)
        return RedisDataCache(configuration, nodes: nodes, logger: logger, statistics: statistics)
    }

    // MARK: - DataCaching

    /// `redis`.
    public var layerName: String { "redis" }

    public func cachedData(for key: String) async -> Data? {
        await cachedData(for: [key])[0]
    }

    /// Loads entries in one round trip for each server, and one more for every four chunks that an entry has beyond its
    /// first.
    public func cachedData(for keys: [String]) async -> [Data?] {
        await nodes.perform(keys.map(Self.digest), by: { $0 }) { [self] node, digests in
            await cachedData(digests, at: node)
        }
    }

    private func cachedData(_ digests: [String], at node: CacheNodes.Node) async -> [Data?] {
        let names = digests.map(CacheKeys.data)
        do {
            let replies = try await node.redis.pipeline(names.map { ["HMGET", .string($0), "m", "0"] })
            var found: [Data?] = []
            for (name, reply) in zip(names, replies) {
                if case .error(let text) = reply {
                    // A miss for this key alone: the replies for the others are good.
                    missed(RedisError(reply: text))
                    found.append(nil)
                    continue
                }
                let fields = reply.array ?? []
                let entry =
                    fields.count == 2 ? try await read(name, at: node, header: fields[0], first: fields[1]) : nil
                found.append(entry?.data)
            }
            return found
        } catch {
            missed(error)
            return digests.map { _ in nil }
        }
    }

    public func containsData(for key: String) async -> Bool {
        let digest = Self.digest(key)
        do {
            return try await nodes[digest].redis.send(["EXISTS", .string(CacheKeys.data(digest))]).int == 1
        } catch {
            missed(error)
            return false
        }
    }

    public func storeData(_ data: Data, for key: String) async {
        let digest = Self.digest(key)
        let (name, node) = (CacheKeys.data(digest), nodes[digest])
        guard data.count <= configuration.maximumEntrySize else {
            logger.debug(
                "a cache entry was not stored: it is too large",
                metadata: [
                    "cache.key": "\(name)", "bytes": "\(data.count)", "limit": "\(configuration.maximumEntrySize)",
                ]
            )
            return
        }
        guard node.capacity.admitsWrite() else { return }
        let temporary = "\(name):\(UInt64.random(in: .min ... .max))"
        do {
            let entry = CachedData(data: data, metadata: .init(lifetime: configuration.lifetime.inSeconds))
            let header = try CacheEntry.header(
                of: entry,
                isRendition: false,
                stored: Date().timeIntervalSince1970
            )
            try await writeChunks(CacheEntry.chunks(of: data), to: temporary, at: node)
            try await run(
                Self.transaction([
                    ["HSET", .string(temporary), "m", .buffer(ByteBuffer(bytes: header))],
                    ["PEXPIRE", .string(temporary), .int(configuration.lifetime.wholeMilliseconds)],
                    ["RENAME", .string(temporary), .string(name)],
                ]),
                at: node
            )
            node.capacity.noteSuccess()
        } catch {
            if !node.capacity.noteFailure(error) { missed(error) }
        }
    }

    public func removeData(for key: String) async {
        let digest = Self.digest(key)
        do {
            try await nodes[digest].redis.send(["UNLINK", .string(CacheKeys.data(digest))])
        } catch {
            missed(error)
        }
    }

    // MARK: - Entries

    /// Reads an entry of which the caller already has the header and the first chunk. The bytes of a large entry are in
    /// a file, those of others in memory.
    ///
    /// - Returns: nil if there is no entry, if it is larger than this process allows, or if it is damaged. A damaged
    ///   one is deleted; a large one stays for processes that allow it.
    func read(
        _ name: String,
        at node: CacheNodes.Node,
        header: RedisValue,
        first: RedisValue
    ) async throws(RedisError) -> CachedData? {
        guard let bytes = header.buffer else { return nil }
        // An entry with an unreadable header is dropped, which logs it.
        guard let header = CacheEntry.Header(json: bytes), header.length >= 0 else {
            return try await drop(name, at: node, header: bytes, reason: "its metadata cannot be read")
        }
        if header.length > configuration.maximumEntrySize {
            logger.debug(
                "a cache entry is larger than the limit of this process; this counts as a miss",
                metadata: [
                    "cache.key": "\(name)", "bytes": "\(header.length)", "limit": "\(configuration.maximumEntrySize)",
                ]
            )
            return nil
        }
        var chunks = first.buffer.map { [$0] } ?? []
        var readCount = chunks.count
        let count = CacheEntry.chunkCount(header.length)
        let isLarge = header.length > EntrySpool.threshold
        // Nil also if no file can be created: the entry is then held in memory, as a download is.
        var spool = isLarge ? await EntrySpool(in: configuration.temporaryDirectory?.path) : nil
        while readCount < count {
            if isLarge, Task.isCancelled { return nil }
            let fields = (readCount..<min(count, readCount + Self.chunksAtOnce)).map { RedisArgument.int($0) }
            let reply = try await node.redis.send(RedisCommand(["HMGET", .string(name)] + fields))
            let next = (reply.array ?? []).compactMap(\.buffer)
            // Evicted, replaced during the read, or torn: a miss in each case.
            guard next.count == fields.count else {
                return try await drop(name, at: node, header: bytes, reason: "chunks are missing")
            }
            chunks += next
            readCount += next.count
            guard spool != nil else { continue }
            // The disk is full, for example: start again from the first chunk, in memory.
            if await spool?.append(chunks) != true { (spool, readCount) = (nil, 0) }
            chunks = []
        }
        let found: CachedData?
        if let spool {
            do {
                found = try await spool.entry(header)
            } catch {
                // A local file error says nothing about the entry in Redis.
                missed(error)
                return nil
            }
        } else {
            found = CacheEntry.assemble(header, from: chunks)
        }
        if var entry = found {
            entry.layer = layerName
            statistics?.add("bytes_out", entry.data.count)
            return entry
        }
        return try await drop(name, at: node, header: bytes, reason: "its checksum is wrong")
    }

    /// Deletes a damaged entry, unless it has been replaced since it was read.
    private func drop(
        _ name: String,
        at node: CacheNodes.Node,
        header: ByteBuffer,
        reason: String
    ) async throws(RedisError) -> CachedData? {
        if try await node.redis.run(FlightScripts.dropEntry, keys: [name], arguments: [.buffer(header)]).int == 1 {
            logger.warning(
                "a damaged cache entry was deleted",
                metadata: ["cache.key": "\(name)", "reason": "\(reason)"]
            )
            statistics?.add("damaged", 1)
        }
        return nil
    }

    func writeChunks(
        _ chunks: [ByteBuffer],
        to name: String,
        at node: CacheNodes.Node
    ) async throws(RedisError) {
        for start in stride(from: 0, to: max(1, chunks.count), by: Self.chunksAtOnce) {
            let some = chunks[start..<min(chunks.count, start + Self.chunksAtOnce)]
            try await run(Self.writing(some, to: name), at: node)
        }
    }

    private func run(_ transaction: [RedisCommand], at node: CacheNodes.Node) async throws(RedisError) {
        try Self.check(await node.redis.pipeline(transaction))
    }

    /// Checks the replies of a pipeline that may end with a transaction.
    ///
    /// - Throws: the first error, including the error of one command in the reply to EXEC, which itself succeeds.
    static func check(_ replies: [RedisValue]) throws(RedisError) {
        // The error of a command that was refused when queued names the cause; the error of EXEC after it does not.
        for case .error(let text) in replies { throw RedisError(reply: text) }
        for case .error(let text) in replies.last?.array ?? [] { throw RedisError(reply: text) }
    }

    /// Commands that write some chunks of an entry to a temporary key, which expires unless the entry is finished. They
    /// are a transaction: of two separate commands the first alone may arrive, and the key would never expire.
    static func writing(_ chunks: ArraySlice<ByteBuffer>, to name: String) -> [RedisCommand] {
        var fields = chunks.indices.flatMap { [RedisArgument.int($0), .buffer(chunks[$0])] }
        if fields.isEmpty { fields = ["0", .buffer(ByteBuffer())] }
        return transaction([
            RedisCommand(["HSET", .string(name)] + fields), ["PEXPIRE", .string(name), .int(temporaryLifetime)],
        ])
    }

    /// Wraps commands so that all of them take effect or none, even if the connection breaks in between.
    private static func transaction(_ commands: [RedisCommand]) -> [RedisCommand] {
        [RedisCommand(["MULTI"])] + commands + [RedisCommand(["EXEC"])]
    }

    /// The digest in the key of the partial download of an original.
    static func digest(ofPartial original: CacheKey) -> String { digest(CacheKey.partial(of: original).description) }

    private static func digest(_ key: String) -> String { Checksum.sha256(Data(key.utf8)) }

    private func missed(_ error: any Error) {
        statistics?.add("cache_errors", 1)
        logger.debug("the cache failed; this counts as a miss", metadata: [LogKey.error: "\(error)"])
    }
}
