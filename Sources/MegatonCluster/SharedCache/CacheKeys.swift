internal import MegatonPipeline

/// Names of the keys in the cache Redis. Each entry has its own hash tag, so that a cache may be spread over a cluster.
enum CacheKeys {
    /// HASH: `m` metadata, `t` token, `x` fresh until (ms), `s` served until (ms) while it is revalidated, chunks `0`,
    /// `1`, … It expires at the latest moment at which it may be of any use. Without `m` it is the mark of an entry
    /// that was superseded, with the version (`v`) that superseded it.
    static func entry(_ key: CacheKey) -> String { "megaton:\(key.kind.rawValue):{\(key.digest)}" }

    /// The entry of a rendition, by the digest of its key.
    static func rendition(_ digest: String) -> String { "megaton:\(CacheKey.Kind.rendition.rawValue):{\(digest)}" }

    /// HASH: the owner of the flight (`o`), its token (`t`), whether it has waiters (`w`), and the version of the
    /// original (`v`) and a mark (`r`) if the flight was taken over to replace an entry. Expires unless the
    /// leader renews it.
    static func flight(_ key: CacheKey) -> String { "megaton:f:{\(key.digest)}" }

    /// STRING: the remembered failure of a key, or `U` for an uncacheable response.
    static func negative(_ key: CacheKey) -> String { "megaton:n:{\(key.digest)}" }

    /// Pattern of the keys of remembered failures, for SCAN.
    static let patternOfNegatives = "megaton:n:{*"

    /// HASH: chunks of a large entry that is being written.
    static func temporary(_ key: CacheKey, token: Int) -> String { "megaton:t:{\(key.digest)}:\(token)" }

    /// HASH, like an entry: data under a name that the caller chose (`DataCaching`).
    static func data(_ digest: String) -> String { "megaton:d:{\(digest)}" }

    /// STRING: an original was fetched lately, and not stored because nothing else needed it.
    static func touch(_ key: CacheKey) -> String { "megaton:s:{\(key.digest)}" }

    /// Channel of a flight, whose waiters are notified of its end. Only they subscribe to it.
    static func landing(_ key: CacheKey) -> String { "megaton:landed:{\(key.digest)}" }

    /// Channel for the keys of deleted entries. Only processes with near caches subscribe to it.
    static let deletions = "megaton:deleted"

    /// The kind of a key by its letter, for statistics.
    static let kinds = [
        "o": "originals", "r": "renditions", "f": "flights", "n": "negatives", "t": "incoming", "d": "data",
        "s": "touches",
    ]
}
