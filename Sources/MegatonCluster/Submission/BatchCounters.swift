/// How far a batch is.
public struct BatchCounters: Sendable, Equatable {
    private let fields: [String: Int]

    /// Of a batch that is not there.
    public static let none = BatchCounters([:])

    init(_ fields: [String: String]) { self.fields = fields.compactMapValues(Int.init) }

    /// A counter by its name in Redis; 0 where it was never touched.
    public subscript(name: String) -> Int { fields[name] ?? 0 }

    /// Whether there is such a batch.
    public var isKnown: Bool { !fields.isEmpty }
    /// Jobs that have ended, in whatever way.
    public var ended: Int { self["done"] + self["failed"] + self["cancelled"] + self["deduplicated"] }
    /// Whether all jobs have ended and no more will come.
    public var isFinished: Bool { fields["finished"] != nil }
}
