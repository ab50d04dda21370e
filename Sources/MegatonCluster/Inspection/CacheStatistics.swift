/// How well the shared cache serves, since the queue was made.
public struct CacheStatistics: Sendable, Codable, Equatable {
    /// Memory of one kind of key.
    public struct Kind: Sendable, Codable, Equatable {
        public var keys = 0
        public var bytes = 0

        mutating func add(_ size: Int) {
            keys += 1
            bytes += size
        }
    }

    /// Looks that found an entry.
    public var hits: Int
    /// Looks that found none.
    public var misses: Int
    /// Flights that were led.
    public var leads: Int
    /// Looks that found somebody else's flight.
    public var waits: Int
    /// Looks that found a remembered failure.
    public var negatives: Int
    /// Entries that were served although they were no longer fresh, as their origin allows.
    public var staleHits: Int
    /// Originals that their origins confirmed instead of sending them again.
    public var revalidations: Int
    /// Requests that were put off for politeness.
    public var throttled: Int
    /// Requests that were put off as their host is broken off.
    public var brokenOff: Int
    /// Bytes that were put into the cache.
    public var bytesIn: Int
    /// Bytes that came out of it.
    public var bytesOut: Int
    /// Requests to origins.
    public var originFetches: Int
    public var originFetchesByHost: [String: Int] = [:]
    /// Different originals that were fetched; an estimate to 1 % (HyperLogLog).
    public var distinctOriginals = 0
    /// Renditions that were made.
    public var renders: Int
    /// Of these, renditions that the planes engine made; libvips made the others.
    public var rendersByPlanes: Int
    /// Of the renders, renditions of damaged pictures that planes left to libvips.
    public var rendersLeftByPlanes: Int
    /// Looks that went on without a cache, as it was away.
    public var failOpen: Int
    /// Writes that came after their flight had been taken over.
    public var staleWritesRefused: Int
    /// Entries whose checksum was wrong; each was deleted.
    public var damaged: Int
    /// Keys that Redis evicted since it started.
    public var evictions = 0
    /// Bytes.
    public var memoryUsed = 0
    /// Bytes; 0 is no limit.
    public var memoryLimit = 0
    /// Memory by kind of key.
    public var kinds: [String: Kind] = [:]
    /// False where the time was up before all keys were seen: `kinds` is a part then.
    public var scanIsComplete = true

    init(counters: [String: Int]) {
        hits = counters["hits"] ?? 0
        misses = counters["misses"] ?? 0
        leads = counters["leads"] ?? 0
        waits = counters["waits"] ?? 0
        negatives = counters["negatives"] ?? 0
        staleHits = counters["stale_hits"] ?? 0
        revalidations = counters["revalidations"] ?? 0
        throttled = counters["throttled"] ?? 0
        brokenOff = counters["broken_off"] ?? 0
        bytesIn = counters["bytes_in"] ?? 0
        bytesOut = counters["bytes_out"] ?? 0
        originFetches = counters["origin_fetches"] ?? 0
        renders = counters["renders"] ?? 0
        rendersByPlanes = counters["renders_by_planes"] ?? 0
        rendersLeftByPlanes = counters["renders_left_by_planes"] ?? 0
        failOpen = counters["fail_open"] ?? 0
        staleWritesRefused = counters["stale_writes_refused"] ?? 0
        damaged = counters["damaged"] ?? 0
    }

    /// Part of the looks that were served; nil before the first.
    public var hitRatio: Double? { hits + misses > 0 ? Double(hits) / Double(hits + misses) : nil }

    /// Requests for each different original: 1 is perfect.
    public var duplicateRatio: Double? {
        distinctOriginals > 0 ? Double(originFetches) / Double(distinctOriginals) : nil
    }
}
