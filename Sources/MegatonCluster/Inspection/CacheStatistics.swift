/// Counters of the shared cache since the queue was created, and the memory of its servers.
package struct CacheStatistics: Sendable, Codable, Equatable {
    /// Memory of one kind of key.
    package struct Kind: Sendable, Codable, Equatable {
        package var keys = 0
        package var bytes = 0

        mutating func add(_ size: Int) {
            keys += 1
            bytes += size
        }
    }

    /// One server of the cache.
    package struct Node: Sendable, Codable, Equatable {
        /// URL without user and password.
        package var address: String
        /// Why it could not be read; nil if it was.
        package var error: String?
        package var evictions = 0
        package var memoryUsed = 0
        package var memoryLimit = 0
        package var kinds: [String: Kind] = [:]
        package var scanIsComplete = true
        /// As `CacheStatistics.refusedCommands`.
        package var refusedCommands: [String] = []

        init(address: String, error: String? = nil) {
            self.address = address
            self.error = error
        }
    }

    /// Lookups that found an entry.
    package var hits: Int
    /// Lookups that found none.
    package var misses: Int
    /// Lookups whose caller became the leader of a flight.
    package var flightLeaders: Int
    /// Lookups whose caller waited for the flight of another leader.
    package var flightWaiters: Int
    /// Lookups that found a remembered failure.
    package var negatives: Int
    /// Stale entries that were served, as their origin allows.
    package var staleHits: Int
    /// Originals that were revalidated: their origins confirmed them instead of sending them again.
    package var revalidations: Int
    /// Requests that were delayed by host limits.
    package var throttled: Int
    /// Requests that were delayed because the circuit breaker of their host was open.
    package var circuitOpen: Int
    /// Bytes written to the cache.
    package var bytesIn: Int
    /// Bytes read from the cache.
    package var bytesOut: Int
    /// Requests to origins.
    package var originFetches: Int
    package var originFetchesByHost: [String: Int] = [:]
    /// Number of different originals that were fetched; an estimate to 1 % (HyperLogLog).
    package var distinctOriginals = 0
    /// Renditions that were rendered.
    package var renders: Int
    /// Renders by the planes engine; libvips rendered the others.
    package var rendersByPlanes: Int
    /// Renders of damaged images that the planes engine left to libvips.
    package var planarFallbacks: Int
    /// Lookups that continued without a cache because Redis could not be reached.
    package var failOpen: Int
    /// Writes that were refused because another leader had taken their flight over.
    package var staleWritesRefused: Int
    /// Entries that were deleted because their checksum was wrong.
    package var damaged: Int
    /// Entries that were not stored because their server was full.
    package var cacheFull: Int
    /// Originals that were not stored because nothing else needed them.
    package var originalsSkipped: Int
    /// Flights that a living leader lost because it could not renew them in time.
    package var flightsLost: Int
    /// Keys that Redis evicted since it started.
    package var evictions = 0
    /// Memory in use, bytes.
    package var memoryUsed = 0
    /// Memory limit, bytes; 0 means no limit.
    package var memoryLimit = 0
    /// Memory by kind of key.
    package var kinds: [String: Kind] = [:]
    /// False if the time was over before all keys were scanned: `kinds` is partial then.
    package var scanIsComplete = true
    /// Commands that the user of the cache Redis may not run, as in ACL rules: `info` (evictions and memory are
    /// unknown), `scan` and `memory|usage` (so are the kinds of keys and their sizes). Nil if nothing is missing.
    package var refusedCommands: [String]?
    /// The servers; the numbers above are their sums.
    package var nodes: [Node] = []

    /// Names in the JSON of `megaton stats`. Some are older than their properties and stay, as scripts read them.
    private enum CodingKeys: String, CodingKey {
        case hits, misses, negatives, staleHits, revalidations, throttled, bytesIn, bytesOut, originFetches
        case originFetchesByHost, distinctOriginals, renders, rendersByPlanes, failOpen, staleWritesRefused, damaged
        case evictions, memoryUsed, memoryLimit, kinds, scanIsComplete
        case refusedCommands
        case cacheFull, originalsSkipped, flightsLost, nodes
        case flightLeaders = "leads"
        case flightWaiters = "waits"
        case circuitOpen = "brokenOff"
        case planarFallbacks = "rendersLeftByPlanes"
    }

    /// That the cache refuses entries, and what to do, as sentences.
    package static let refusalWarning =
        "the shared cache refuses new entries, as it is full, and jobs go on without storing any. Raise maxmemory of "
        + "its Redis, or set maxmemory-policy to allkeys-lru, or to volatile-lru if it holds jobs too."

    /// Whether the cache has refused entries since an earlier reading.
    ///
    /// The memory in use does not show it: a large entry has no room in a server that is not quite full.
    package func hasRefused(since last: CacheStatistics) -> Bool { cacheFull > last.cacheFull }

    package init(counters: [String: Int]) {
        hits = counters["hits"] ?? 0
        misses = counters["misses"] ?? 0
        flightLeaders = counters["leads"] ?? 0
        flightWaiters = counters["waits"] ?? 0
        negatives = counters["negatives"] ?? 0
        staleHits = counters["stale_hits"] ?? 0
        revalidations = counters["revalidations"] ?? 0
        throttled = counters["throttled"] ?? 0
        circuitOpen = counters["broken_off"] ?? 0
        bytesIn = counters["bytes_in"] ?? 0
        bytesOut = counters["bytes_out"] ?? 0
        originFetches = counters["origin_fetches"] ?? 0
        renders = counters["renders"] ?? 0
        rendersByPlanes = counters["renders_by_planes"] ?? 0
        planarFallbacks = counters["renders_left_by_planes"] ?? 0
        failOpen = counters["fail_open"] ?? 0
        staleWritesRefused = counters["stale_writes_refused"] ?? 0
        damaged = counters["damaged"] ?? 0
        cacheFull = counters["cache_full"] ?? 0
        originalsSkipped = counters["originals_skipped"] ?? 0
        flightsLost = counters["flights_lost"] ?? 0
    }

    mutating func add(_ node: Node) {
        nodes.append(node)
        // A server without a limit has the memory of its machine: then there is no sum of limits.
        let limits = nodes.filter { $0.error == nil }.map(\.memoryLimit)
        memoryLimit = limits.contains(0) ? 0 : limits.reduce(0, +)
        evictions += node.evictions
        memoryUsed += node.memoryUsed
        for (kind, size) in node.kinds {
            kinds[kind, default: Kind()].keys += size.keys
            kinds[kind, default: Kind()].bytes += size.bytes
        }
        if !node.refusedCommands.isEmpty {
            refusedCommands = Array(Set((refusedCommands ?? []) + node.refusedCommands)).sorted()
        }
        scanIsComplete = scanIsComplete && node.scanIsComplete && node.error == nil
    }

    /// Fraction of lookups that were hits; nil before the first.
    package var hitRatio: Double? { hits + misses > 0 ? Double(hits) / Double(hits + misses) : nil }

    /// Requests per different original: 1 is perfect.
    package var duplicateRatio: Double? {
        distinctOriginals > 0 ? Double(originFetches) / Double(distinctOriginals) : nil
    }
}

extension CacheStatistics {
    /// The counters of the queue by their names in reports and metrics. Those of the servers are not among them.
    package var events: [(name: String, count: Int)] {
        [
            ("hits", hits), ("misses", misses), ("flight_leaders", flightLeaders), ("flight_waiters", flightWaiters),
            ("negatives", negatives), ("stale_hits", staleHits), ("revalidations", revalidations),
            ("throttled", throttled), ("circuit_open", circuitOpen), ("renders", renders),
            ("renders_by_planes", rendersByPlanes), ("planar_fallbacks", planarFallbacks),
            ("origin_fetches", originFetches), ("bytes_in", bytesIn), ("bytes_out", bytesOut),
            ("fail_open", failOpen), ("stale_writes_refused", staleWritesRefused), ("damaged", damaged),
            ("cache_full", cacheFull), ("originals_skipped", originalsSkipped), ("flights_lost", flightsLost),
        ]
    }
}
