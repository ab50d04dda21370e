internal import MegatonPipeline

/// The names of what the cache Redis holds. Each entry has its own hash tag: a cache may be spread over a cluster.
enum CacheNames {
    /// HASH: `m` metadata, `t` token, `x` fresh until (ms), `s` served stale until (ms) while somebody asks the origin,
    /// chunks `0`, `1`, … Its time-out is the latest moment at which it may be of any use.
    static func entry(_ key: CacheKey) -> String { "megaton:\(key.kind.rawValue):{\(key.digest)}" }

    /// HASH: who makes the entry, with which token, and whether somebody waits. Lives as long as the leader renews it.
    static func flight(_ key: CacheKey) -> String { "megaton:f:{\(key.digest)}" }

    /// STRING: why it could not be made a moment ago.
    static func negative(_ key: CacheKey) -> String { "megaton:n:{\(key.digest)}" }

    /// Pattern of the failures that are remembered, for SCAN.
    static let patternOfNegatives = "megaton:n:{*"

    /// HASH: chunks of a large entry on their way in.
    static func temporary(_ key: CacheKey, token: Int) -> String { "megaton:t:{\(key.digest)}:\(token)" }

    /// HASH, like an entry: bytes under a name of somebody's own (`DataCaching`).
    static func data(_ digest: String) -> String { "megaton:d:{\(digest)}" }

    /// The channels on which the ends of flights are told, by their keys, and entries that were deleted.
    static let channels = (0..<16).map { "megaton:landed:\($0)" }

    /// The channel of a key.
    static func channel(_ key: CacheKey) -> String {
        channels[Int(key.digest.prefix(1), radix: 16) ?? 0]
    }

    /// What is told of an entry that was deleted. No key begins so.
    static func deletion(of key: CacheKey) -> String { "-" + key.description }

    /// The key of an entry that was deleted, if a message is about one.
    static func deleted(_ message: String) -> String? {
        message.hasPrefix("-") ? String(message.dropFirst()) : nil
    }

    /// What each kind of key is, for statistics.
    static let kinds = [
        "o": "originals", "r": "renditions", "f": "flights", "n": "negatives", "t": "incoming", "d": "data",
    ]
}
