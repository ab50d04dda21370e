/// Progress of a batch.
public struct BatchCounters: Sendable, Equatable {
    private let fields: [String: Int]

    /// The counters of a batch that does not exist.
    package static let none = BatchCounters([:])

    init(_ fields: [String: String]) { self.fields = fields.compactMapValues(Int.init) }

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
