internal import MegatonRedis

/// The places of a fleet, as its workers state them.
struct FleetPlaces: Equatable {
    /// Number of jobs with long fetches, for each place, that a worker has in progress beside those that occupy its
    /// places: see `WorkerPlaces`.
    static let longFetchesOfPlace = 3

    /// Those in all workers that are for this shard.
    var longFetches: Int { Self.longFetchesOfPlace * ofShard }

    /// Those in all workers that are for this shard: of a worker that has several shards, its part.
    private(set) var ofShard = 0
    /// The largest number of shards that a worker has.
    private(set) var shardCount = 1

    init() {}

    /// - Parameter workers: the places of each worker, and the number of shards that they are for.
    init(_ workers: [(places: Int, shards: Int)]) {
        var sum = 0.0
        for worker in workers where worker.places > 0 {
            sum += Double(worker.places) / Double(max(worker.shards, 1))
            shardCount = max(shardCount, worker.shards)
        }
        // A part of a place is one, but not the rest by which a sum of thirds may be too large.
        ofShard = Int((sum - 1e-6).rounded(.up))
    }
}

extension JobQueue {
    /// The places in all workers that have signed on.
    func places() async throws(RedisError) -> FleetPlaces {
        let infos = try await redis.send(["HVALS", .string(keys.workerInfo)]).array ?? []
        let workers = infos.compactMap { WorkerInfo(stored: $0.string ?? "") }
        return FleetPlaces(workers.map { ($0.concurrency, $0.shards ?? 1) })
    }
}
