import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonRedis
import Synchronization

/// The cancellation of a batch that is not followed to its end.
extension BatchRun {
    /// Cancels the batch after an error, such as a full disk, because no process follows it any more. Another
    /// submitter's batch of this name is left alone.
    ///
    /// - Returns: whether the batch was cancelled.
    func giveUp() async -> Bool {
        do {
            return try await submitter.cancel()
        } catch {
            Terminal.error(
                "megaton: the batch \(batch) could not be cancelled: \(FieldProblem.sentence("\(error)")) If its Redis still "
                    + "runs, megaton batch cancel \(batch) ends it. The same command again makes what is missing."
            )
            return false
        }
    }

    /// Cancels the batch if no worker claims its ready jobs, and returns the reason. They end when one does, and the
    /// caller does not wait for that.
    func abandon() async throws -> String? {
        do {
            // The status comes from the queue alone: no cache is asked.
            let status = try await Inspector(queue: queue, cache: waiting).status()
            guard let obstacle = QueueObstacle.ofReadyJobs(status) else { return nil }
            return try await submitter.cancel() ? obstacle : nil
        } catch {
            // `outcomes` meets the same error and reports it.
            guard error.isTransient else { throw error }
            return nil
        }
    }

    /// Reports that the batch is being ended, as its running jobs may take a while.
    func reportEnding() {
        let now = progress.withLock { $0 }
        let count = now.submitted - now.ended
        guard count > 0 else { return }
        let reason = now.ranOutOfTime ? "the time of --timeout is over" : "interrupted"
        let jobs = "\(Counted.jobs(count)) that \(count == 1 ? "has not ended is" : "have not ended are")"
        Terminal.note("megaton: \(reason); \(jobs) being cancelled. Press Ctrl-C to end without waiting for them.")
    }

    /// Reports cancelled jobs that end later, and how to get their lines.
    func reportAbandoned(_ count: Int, _ obstacle: String) {
        let path = ledger?.path
        let remark = LedgerRemark.abandoned(count, obstacle, hasFile: path != nil)
        // The Redis of a run may end with it, and a line does not make a sample of a shard.
        guard !cancelsAtTimeout, shards == nil, count > 0 else { return Terminal.error("megaton: \(remark)") }
        guard let path, LedgerPath.descriptor(of: path) == nil else {
            return Terminal.error(
                "megaton: \(remark). They end when a worker claims them; megaton batch wait \(batch) waits for that."
            )
        }
        Terminal.error(
            "megaton: \(remark). They end when a worker claims them, and megaton batch results \(batch) --follow "
                + "--ledger \(path) adds their lines then."
        )
    }
}
