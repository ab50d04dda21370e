/// Options of a batch, which its submitter sets once for all of its jobs.
package struct BatchPolicy: Sendable, Equatable {
    /// Whether outcomes are stored for a reader.
    package var keepsLedger: Bool
    /// Whether jobs with the same source, renditions and output are admitted only once; the others end as
    /// `deduplicated`.
    package var deduplicates: Bool
    /// Share of the admitted jobs relative to other batches, 1 to `maximumWeight`.
    package var weight: Int

    /// The largest weight.
    package static let maximumWeight = 100

    package init(keepsLedger: Bool = false, deduplicates: Bool = false, weight: Int = 1) {
        self.keepsLedger = keepsLedger
        self.deduplicates = deduplicates
        self.weight = min(max(weight, 1), Self.maximumWeight)
    }
}
