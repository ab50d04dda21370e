/// Progress of a batch.
public struct BatchCounters: Sendable, Equatable {
    private var fields: [String: Int]

    /// The counters of a batch that does not exist.
    package static let none = BatchCounters([:])

    init(_ fields: [String: String]) { self.fields = fields.compactMapValues(Int.init) }

    /// The counters of a batch that several shards count. Shards that do not know it have no part in them.
    static func sum(_ parts: [BatchCounters]) -> BatchCounters {
        let known = parts.filter(\.isKnown)
        if known.count < 2 { return known.first ?? none }
        var fields: [String: Int] = [:]
        for part in known { fields.merge(part.fields, uniquingKeysWith: +) }
        // These are the same in all shards, or no numbers of jobs.
        for name in ["ledger", "deduplicate", "weight", "unique", "submitter"] { fields[name] = known[0].fields[name] }
        fields["created"] = known.compactMap { $0.fields["created"] }.min()
        fields["closed"] = known.allSatisfy { $0["closed"] == 1 } ? 1 : nil
        fields["finished"] =
            known.allSatisfy(\.isFinished) ? known.compactMap { $0.fields["finished"] }.max() : nil
        var sum = none
        sum.fields = fields
        return sum
    }

    /// A counter by its name in Redis; 0 if it was never set.
    public subscript(name: String) -> Int { fields[name] ?? 0 }

    /// Whether the batch exists.
    public var isKnown: Bool { !fields.isEmpty }
    /// Number of jobs that have ended, with any result.
    public var ended: Int { self["done"] + self["failed"] + self["cancelled"] + self["deduplicated"] }
    /// Whether all jobs have ended and no more will be added.
    public var isFinished: Bool { fields["finished"] != nil }
}

/// An entry in a list of batches.
package struct BatchSummary: Sendable, Equatable {
    package let name: String
    package let counters: BatchCounters

    package init(name: String, counters: BatchCounters) {
        self.name = name
        self.counters = counters
    }
}
