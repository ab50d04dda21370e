/// An entry in a list of batches.
public struct BatchSummary: Sendable, Equatable {
    public let name: String
    public let counters: BatchCounters

    public init(name: String, counters: BatchCounters) {
        self.name = name
        self.counters = counters
    }
}
