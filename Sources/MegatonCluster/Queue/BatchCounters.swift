/// Progress of a batch.
public struct BatchCounters: Sendable, Equatable {
    private var fields: [String: Int]
    /// Whether all parts have ended, except for those that shards have lost.
    private var hasEndedElsewhere = false

    /// The counters of a batch that does not exist.
    package static let none = BatchCounters([:])

    init(_ fields: [String: String]) { self.fields = fields.compactMapValues(Int.init) }

    /// The counters of a batch that several shards count. Shards that do not know it have no part in them.
    ///
    /// If the batch has begun in more shards than know it, it is not finished: `shards_lost` is the number of those
    /// that have lost their part, or forgotten it a moment before the others.
    static func sum(_ parts: [BatchCounters]) -> BatchCounters {
        let known = parts.filter(\.isKnown)
        if parts.count < 2 || known.isEmpty { return known.first ?? none }
        // A shard that was removed has no part any more.
        let begun = min(known.map { $0["shards"] }.max() ?? 0, parts.count)
        let lost = max(begun - known.count, 0)
        if known.count == 1 && lost == 0 { return known[0] }
        var fields: [String: Int] = [:]
        for part in known { fields.merge(part.fields, uniquingKeysWith: +) }
        // These are the same in all shards, or no numbers of jobs.
        for name in ["ledger", "deduplicate", "weight", "unique", "submitter"] { fields[name] = known[0].fields[name] }
        fields["shards"] = known.compactMap { $0.fields["shards"] }.max()
        fields["shards_lost"] = lost > 0 ? lost : nil
        fields["created"] = known.compactMap { $0.fields["created"] }.min()
        fields["closed"] = known.allSatisfy { $0["closed"] == 1 } ? 1 : nil
        let hasEnded = known.allSatisfy(\.isFinished)
        fields["finished"] = hasEnded && lost == 0 ? known.compactMap { $0.fields["finished"] }.max() : nil
        var sum = none
        sum.fields = fields
        sum.hasEndedElsewhere = hasEnded
        return sum
    }

    /// A counter by its name in Redis; 0 if it was never set.
    public subscript(name: String) -> Int { fields[name] ?? 0 }

    /// Whether the batch exists.
    public var isKnown: Bool { !fields.isEmpty }
    /// Number of jobs that have ended, with any result.
    public var ended: Int { self["done"] + self["failed"] + self["cancelled"] + self["deduplicated"] }
    /// Number of shards that have lost their part of the batch.
    package var lostShards: Int { self["shards_lost"] }
    /// Whether the batch cannot finish any more, unless its submitter pushes the lost jobs again: shards have lost
    /// their part, and all others have ended theirs.
    package var lacksOnlyLostParts: Bool { lostShards > 0 && hasEndedElsewhere }
    /// Whether all jobs have ended and no more will be added. False if a shard of the queue has lost its part.
    public var isFinished: Bool { fields["finished"] != nil }
}

/// An entry in a list of batches.
package struct BatchSummary: Sendable, Equatable {
    package let name: String
    /// None if the batch cannot be read.
    package let counters: BatchCounters
    /// The batch's key if it has another type than a hash: another program has written it.
    package let damagedKey: String?

    package init(name: String, counters: BatchCounters, damagedKey: String? = nil) {
        self.name = name
        self.counters = counters
        self.damagedKey = damagedKey
    }
}
