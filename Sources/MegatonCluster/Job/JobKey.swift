/// Key of a job within its queue: its id, scoped by its batch.
///
/// Design. A submitter chooses its ids, so an id is unique within a batch and not within the queue; jobs without a
/// batch share one scope. The queue itself knows a job by a single text, the key's `text`. Every list, lease, fencing
/// check and dead letter uses it, so that no script needs to know about scopes. The `/` can occur in neither a batch
/// nor an id.
///
/// - `id`: a job without a batch. Earlier versions also wrote this for jobs of batches, which stay readable.
/// - `batch/id`: a job of a batch. A requeued job stays in the scope of the batch that it died in, without belonging to
///   it.
/// - `batch/id/n` or `/id/n`: only dead letters, of jobs that were refused because another job had their id.
///
/// Each decision has one owner. `JobValidator` gives a job its key, and identifies its content by a digest. The script
/// `admit` decides how a known key is treated: in one batch, the same content is a duplicate, which ends as
/// `deduplicated` with the outputs or error of the first job; other content is a failure with the code `id_conflict`.
/// The jobs that a batch has had are in `known:<batch>` until the batch has ended; `finish` in the prelude answers the
/// duplicates that wait for their first job. Users and ledgers only ever see `id` and `batch`.
package struct JobKey: Sendable, Hashable {
    /// The batch that scopes the id; nil for the scope of jobs without a batch.
    package let batch: String?
    /// The id that the submitter or the coordinator gave.
    package let id: String
    /// The text by which the queue knows the job: at most 300 bytes, as the parts of a job are bounded.
    package let text: String

    /// - Parameter batch: nil or empty for a job without one.
    package init(batch: String?, id: String) {
        self.batch = batch.flatMap { $0.isEmpty ? nil : $0 }
        self.id = id
        text = self.batch.map { "\($0)/\(id)" } ?? id
    }

    /// Parses the text by which the queue knows a job.
    package init(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false)
        self.text = text
        batch = parts.count > 1 && !parts[0].isEmpty ? String(parts[0]) : nil
        id = String(parts.count > 1 ? parts[1] : parts[0])
    }
}
