/// How long ended work is kept in Redis, and how much of it.
package struct Retention: Sendable, Equatable {
    /// How long a dead letter is kept.
    package var deadLetters: Duration = .seconds(30 * 24 * 3600)
    /// Maximum number of bytes of the dead letters; the oldest are deleted. If nil, 32 MiB, or a sixteenth of Redis'
    /// `maxmemory` if that is less, but at least 1 MiB.
    package var deadLetterBytes: Int?
    /// Maximum number of bytes of the outcomes of all batches that no reader has received. The outcomes of the batches
    /// that ended first are deleted; if there are none left, new ones are not kept. If nil, 1 GiB, or a quarter of
    /// Redis' `maxmemory` if that is less, but at least 4 MiB.
    package var outcomeBytes: Int?

    /// Number of shards that share these limits.
    var shards = 1

    package init() {}

    /// How long a batch is remembered by default.
    static let batches: Duration = .seconds(7 * 24 * 3600)

    /// Maximum numbers of bytes.
    struct Limits: Sendable, Equatable {
        var deadLetters: Int
        var outcomes: Int
    }

    /// - Parameter memory: `maxmemory` of Redis; 0 if it has none, or if it is unknown. If it is very small, an
    ///   operator stops writes with it, and nothing of what is there may be deleted for that.
    func limits(memory: Int) -> Limits {
        let memory = memory > 0 ? max(memory, Self.leastMemory) : Int.max
        return Limits(
            deadLetters: (deadLetterBytes ?? min(32 * 1024 * 1024, memory / 16)) / shards,
            outcomes: (outcomeBytes ?? min(1024 * 1024 * 1024, memory / 4)) / shards
        )
    }

    /// Bytes of `maxmemory` below which the limits do not follow it.
    private static let leastMemory = 16 * 1024 * 1024
}
