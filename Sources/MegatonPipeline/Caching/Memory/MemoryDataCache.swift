public import Foundation

/// A `DataCaching` in memory: the topmost layer of a `LayeredDataCache`, or the only cache of a short run.
///
/// Eviction uses CLOCK (second chance).
public final class MemoryDataCache: DataCaching {
    private let cache: Cache<String, Data>

    /// - Parameters:
    ///   - costLimit: maximum total size of all entries in bytes, 64 MiB by default.
    ///   - countLimit: maximum number of entries.
    ///   - ttl: time to live of an entry; nil means no expiry. Set it if other processes write to a layer below,
    ///     because this cache does not learn of their changes.
    ///   - clock: measures `ttl`.
    public init(
        costLimit: Int = 64 * 1024 * 1024,
        countLimit: Int = .max,
        ttl: Duration? = nil,
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        cache = Cache(costLimit: costLimit, countLimit: countLimit, time: TimeSource(clock))
        cache.ttl = ttl
    }

    /// Maximum total size of all entries in bytes. A lower value is enforced at once.
    public var costLimit: Int {
        get { cache.costLimit }
        set { cache.costLimit = newValue }
    }

    /// Maximum number of entries. A lower value is enforced at once.
    public var countLimit: Int {
        get { cache.countLimit }
        set { cache.countLimit = newValue }
    }

    /// An entry is stored only if it has fewer bytes than this fraction of `costLimit`. 0.1 by default.
    public var entryCostLimit: Double {
        get { cache.entryCostLimit }
        set { cache.entryCostLimit = newValue }
    }

    /// Time to live of entries stored from now on; nil means no expiry.
    public var ttl: Duration? {
        get { cache.ttl }
        set { cache.ttl = newValue }
    }

    /// Total size of all entries in bytes.
    public var totalCost: Int { cache.totalCost }
    /// Number of entries.
    public var totalCount: Int { cache.totalCount }

    /// Evicts until the total size is at most `limit` bytes.
    public func trim(toCost limit: Int) { cache.trim(toCost: limit) }

    /// Evicts until there are at most `limit` entries.
    public func trim(toCount limit: Int) { cache.trim(toCount: limit) }

    // MARK: - DataCaching

    /// Always `memory`.
    public var layerName: String { "memory" }

    // These methods are `async` although they never suspend. In an asynchronous context Swift prefers `async`
    // overloads, and would otherwise choose the protocol's defaults, which look up one key after the other.

    public func cachedData(for key: String) async -> Data? { cache.value(for: key) }

    public func cachedData(for keys: [String]) async -> [Data?] { keys.map { cache.value(for: $0) } }

    public func containsData(for key: String) async -> Bool { cache.contains(key) }

    public func storeData(_ data: Data, for key: String) async {
        // A slice keeps its whole underlying buffer alive, which the cost would not include.
        cache.set(data.startIndex == 0 ? data : Data(data), for: key, cost: data.count)
    }

    public func removeData(for key: String) async { cache.removeValue(for: key) }

    public func removeAll() async { cache.removeAll() }
}
