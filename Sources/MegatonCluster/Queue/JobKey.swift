/// The name of a job within its queue: its id, within its batch.
///
/// Design. An id belongs to its submitter, so it is unique within a batch and not within the queue; jobs without a batch
/// share one scope. The queue itself knows jobs by one text only, this one's `text`. That is what every list, lease, fence
/// and dead letter uses, so that no script needs to know of scopes. The `/` can occur in neither a batch nor an id.
///
/// - `id`: without a batch; also what earlier versions wrote for jobs of batches, which stay readable.
/// - `batch/id`: of a batch. A requeued job stays in the scope of the batch that it died in, without belonging to it.
/// - `batch/id/n` or `/id/n`: a dead letter only, of a job that was refused while its id was another job's.
///
/// The decisions have one owner each. `JobValidator` gives a job its key, and names its content by a digest. The script
/// `admit` decides what a key that is known means: the same content in one batch is a duplicate, which ends as
/// `deduplicated` with the first one's outputs or error, and another content is a failure with the code `id_conflict`. What
/// a batch has had is in `known:<batch>` until the batch has ended; `finish` in the prelude answers the duplicates that wait
/// for their first one. People and ledgers only ever see `id` and `batch`.
public struct JobKey: Sendable, Hashable {
    /// The batch whose ids these are; nil for the scope of jobs without a batch.
    public let batch: String?
    /// As its submitter named it, or the coordinator.
    public let id: String
    /// The text that the queue knows: at most 300 bytes, as the parts of a job are bounded.
    public let text: String

    /// - Parameter batch: nil or empty for a job without one.
    public init(batch: String?, id: String) {
        self.batch = batch.flatMap { $0.isEmpty ? nil : $0 }
        self.id = id
        text = self.batch.map { "\($0)/\(id)" } ?? id
    }

    /// Reads what the queue knows.
    public init(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false)
        self.text = text
        batch = parts.count > 1 && !parts[0].isEmpty ? String(parts[0]) : nil
        id = String(parts.count > 1 ? parts[1] : parts[0])
    }
}
