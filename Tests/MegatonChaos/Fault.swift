/// Faults that the nemesis can inject. Each is undone before the next one starts.
enum Fault: String, CaseIterable {
    case killWorker = "kill -9 of a worker"
    case killWorkers = "kill -9 of half of the workers"
    case stopWorker = "SIGSTOP of a worker beyond its lease"
    case drainWorker = "SIGTERM of a worker"
    case suspectsWorker = "a further worker that takes only suspects"
    case killCoordinator = "kill -9 of a coordinator"
    case stopCoordinator = "SIGSTOP of a coordinator beyond its lease"
    case cutControl = "all connections to the control Redis cut"
    case cutCache = "all connections to the cache Redis cut"
    case tearControl = "replies of the control Redis torn in the middle"
    case halfOpenControl = "half-open connections at the control Redis"
    case blackHoleControl = "a black hole in front of the control Redis"
    case blackHoleCache = "a black hole in front of the cache Redis"
    case slowControl = "latency of 50 ms to the control Redis"
    case thinCache = "1 MB/s to the cache Redis"
    case restartControl = "kill -9 of the control Redis, and its restart"
    case restartCache = "kill -9 of the cache Redis, which loses everything"
    case flushScripts = "SCRIPT FLUSH and CLIENT KILL"
    case slowRedis = "DEBUG SLEEP of the control Redis"
    case fullControl = "maxmemory of the control Redis reached"
    case fullCache = "memory pressure at the cache Redis"
    case slowOrigin = "an origin that takes seconds"
    case failingOrigin = "an origin that answers 503 with Retry-After"
    case brokenOrigin = "an origin that ends in the middle of its bodies"

    /// Whether a Redis is unreachable, slow or empty during the fault. A cache that does not answer is a reason for
    /// jobs to stand still too, as each waits for it in vain.
    var takesRedisAway: Bool {
        switch self {
        case .killWorker, .killWorkers, .stopWorker, .drainWorker, .suspectsWorker, .killCoordinator, .stopCoordinator,
            .slowOrigin, .failingOrigin, .brokenOrigin:
            false
        default: true
        }
    }
}
