/// Options of a batch, which its submitter sets once for all of its jobs.
public struct BatchPolicy: Sendable, Equatable {
    /// Whether outcomes are stored for a reader.
    public var keepsLedger: Bool
    /// Whether jobs with the same source, renditions and output are admitted only once; the others end as
    /// `deduplicated`.
    public var deduplicates: Bool
    /// Share of the admitted jobs relative to other batches, 1 to `maximumWeight`.
    public var weight: Int

    /// The largest weight.
    public static let maximumWeight = 100

    public init(keepsLedger: Bool = false, deduplicates: Bool = false, weight: Int = 1) {
        self.keepsLedger = keepsLedger
        self.deduplicates = deduplicates
        self.weight = min(max(weight, 1), Self.maximumWeight)
    }
}
