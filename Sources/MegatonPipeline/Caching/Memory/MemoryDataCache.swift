public import Foundation

/// A `DataCaching` in memory: the topmost layer of a `LayeredDataCache`, or the only cache of a short run.
///
/// What goes first where room is needed is found by CLOCK (second chance).
public final class MemoryDataCache: DataCaching {
    private let cache: Cache<String, Data>

    /// - Parameters:
    ///   - costLimit: bytes of all entries, 64 MiB by default.
    ///   - countLimit: entries.
    ///   - ttl: how long an entry lives; nil is for ever. Worth setting where others write into a layer beneath this one:
    ///     it does not hear of that.
    ///   - clock: what `ttl` is measured by.
    public init(
        costLimit: Int = 64 * 1024 * 1024,
        countLimit: Int = .max,
        ttl: Duration? = nil,
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        cache = Cache(costLimit: costLimit, countLimit: countLimit, time: TimeSource(clock))
        cache.ttl = ttl
    }

    /// Bytes of all entries; enforced at once where it is lowered.
    public var costLimit: Int {
        get { cache.costLimit }
        set { cache.costLimit = newValue }
    }

    /// Enforced at once where it is lowered.
    public var countLimit: Int {
        get { cache.countLimit }
        set { cache.countLimit = newValue }
    }

    /// An entry is kept only if it has fewer bytes than this part of `costLimit`. 0.1 by default.
    public var entryCostLimit: Double {
        get { cache.entryCostLimit }
        set { cache.entryCostLimit = newValue }
    }

    /// How long an entry lives that is stored from now on; nil is for ever.
    public var ttl: Duration? {
        get { cache.ttl }
        set { cache.ttl = newValue }
    }

    /// Bytes of all entries.
    public var totalCost: Int { cache.totalCost }
    /// Entries.
    public var totalCount: Int { cache.totalCount }

    /// Evicts until the entries have so many bytes at the most.
    public func trim(toCost limit: Int) { cache.trim(toCost: limit) }

    /// Evicts until there are so many entries at the most.
    public func trim(toCount limit: Int) { cache.trim(toCount: limit) }

    // MARK: - DataCaching

    /// `memory`.
    public var layerName: String { "memory" }

    // Asynchronous, though nothing waits: where a caller may wait Swift prefers asynchronous overloads, and those would be
    // the protocol's defaults, which look at one key after the other.

    public func cachedData(for key: String) async -> Data? { cache.value(for: key) }

    public func cachedData(for keys: [String]) async -> [Data?] { keys.map { cache.value(for: $0) } }

    public func containsData(for key: String) async -> Bool { cache.contains(key) }

    public func storeData(_ data: Data, for key: String) async {
        // A slice keeps all of what it was cut from alive, which nobody would count.
        cache.set(data.startIndex == 0 ? data : Data(data), for: key, cost: data.count)
    }

    public func removeData(for key: String) async { cache.removeValue(for: key) }

    public func removeAll() async { cache.removeAll() }
}
