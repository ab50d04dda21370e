import MegatonTestSupport

/// The parts of a run beside its faults that the seed decides: the workers and the shards.
struct ChaosPlan {
    /// A worker.
    struct Worker {
        let places: Int

        /// Later options replace those that ``Fleet`` gives to each worker.
        var arguments: [String] { ["--concurrency", String(places), "--render-threads", places < 12 ? "1" : "2"] }
    }

    let workers: [Worker]
    /// Number of shards at the start; 1 leaves the queue undivided.
    let shards: Int
    /// Number of shards from the middle of the run on.
    let laterShards: Int

    /// Places of the workers: always a large one and one with a single place. All together are at most 32, so that jobs
    /// of half a second need less than one of two cores.
    private static let fleets = [[24, 4, 2, 1], [16, 8, 1, 1, 1], [12, 12, 3, 1], [20, 6, 4, 1, 1]]

    init(seed: UInt64) {
        // Not the numbers from which the faults are drawn.
        var random = SeededGenerator(seed: ~seed)
        workers = Self.fleets[Int.random(in: Self.fleets.indices, using: &random)].map(Worker.init)
        // Of five seeds in a row, three have one shard.
        shards = seed % 5 == 2 ? 2 : seed % 5 == 4 ? 3 : 1
        laterShards = shards == 1 ? 1 : shards + 1
    }

    var places: Int { workers.reduce(0) { $0 + $1.places } }
}
