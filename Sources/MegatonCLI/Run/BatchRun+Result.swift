import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonRedis
import Synchronization

extension BatchRun {
    /// Destination of the renditions that the client writes, and where they come from.
    struct Shards: Sendable {
        let output: ShardOutput
        let cache: RedisDataCache

        /// Adds the images of these outcomes to the shards.
        ///
        /// - Returns: the lines of the ledger.
        func store(_ lines: [Data], unless shutdown: ShutdownSignal) async throws -> [Data] {
            try await output.store(lines, from: cache, unless: shutdown)
        }
    }

    /// State of a batch while it is followed.
    struct Progress {
        /// Whether a push was tried, perhaps in vain.
        var wasTried = false
        /// Whether Redis has the batch, and has it as ours.
        var hasBegun = false
        var submitted = 0
        var ended = 0
        var isComplete = false
        /// Whether no more jobs will be pushed.
        var isStopped = false
        var ranOutOfTime = false
        /// Whether the rest was cancelled without a worker that ends it.
        var wasAbandoned = false
        var leftOut = LeftOutInputs()
        var notRetried = RetryLedger.NotRetried()
        /// The outcomes that were read, when the batch has ended.
        var history: OutcomeHistories?
    }

    /// Result of a batch.
    struct Result: Sendable {
        let summary: RunSummary
        let errors: String
        let leftOut: LeftOutInputs
        /// Jobs that a retry left out of its ledger.
        let notRetried: RetryLedger.NotRetried
        /// Whether jobs were left out because the shards have them.
        var hasOtherSamples = false
        let wasInterrupted: Bool
        /// Whether `--timeout` caused the interruption.
        let ranOutOfTime: Bool
        /// Number of jobs that have not ended and were not reported as cancelled.
        let openJobs: Int
        /// Whether all inputs were read.
        let isReadWhole: Bool
        /// Jobs that are done although their image is damaged.
        var damaged = 0
        /// Jobs whose outcomes Redis has lost; nil if there are none.
        var missing: MissingOutcomes?

        /// Whether all inputs were read and all of their jobs have ended.
        var isWhole: Bool { !wasInterrupted && !ranOutOfTime && isReadWhole && openJobs == 0 && missing == nil }

        /// The exit code.
        var code: Int32 {
            if missing != nil { return 69 }
            let code = summary.exitCode(
                interrupted: wasInterrupted,
                ranOutOfTime: ranOutOfTime,
                leavesOut: !notRetried.isEmpty || leftOut.unreadable > 0
            )
            return code == 0 && openJobs > 0 ? 69 : code
        }
    }

    /// Whether a signal has interrupted nothing: all jobs had ended by then, and their outcomes were read.
    ///
    /// - Parameter read: number of outcomes that were read; nil if neither a ledger nor shards keep them.
    static func isWhole(_ progress: Progress, _ counters: BatchCounters, read: Int?) -> Bool {
        progress.isComplete && counters["cancelled"] == 0 && counters.ended >= progress.submitted
            && (read ?? progress.submitted) >= progress.submitted
    }

    /// Reports jobs that are submitted again.
    static func reportRestored(_ count: Int, _ batch: String) {
        Terminal.error(
            "megaton: Redis has returned to an earlier state and lost \(Counted.jobs(count)) of the batch \(batch), "
                + "which \(count == 1 ? "is" : "are") submitted again."
        )
    }

    /// Reports cancelled jobs that have no outcome.
    ///
    /// - Returns: the number of these jobs.
    func reportUnwritten(_ counters: BatchCounters, _ tally: BatchTally) -> Int {
        let unwritten = max(counters["cancelled"] - tally.cancelled, 0)
        if ledger != nil && unwritten > 0 {
            Terminal.error("megaton: \(LedgerRemark.unwritten(unwritten, options.repetition))")
        }
        return unwritten
    }

    /// Number of jobs that Redis has.
    var submitted: Int { progress.withLock { $0.submitted } }

    /// The error of a command that no longer waits for its batch.
    func stoppedWaiting() async -> CLIError {
        // Without an answer the message has no reason: Redis may be unreachable.
        queue.failFast()
        let status = try? await Inspector(queue: queue, cache: waiting).status()
        let now = progress.withLock { $0 }
        return BatchFailure.stoppedWaiting(
            batch,
            seconds: options.timeout ?? 0,
            ended: now.ended,
            submitted: now.submitted,
            isComplete: now.isComplete,
            obstacle: status.flatMap { QueueObstacle.pause($0) ?? QueueObstacle.missingWorker($0) },
            repetition: options.repetition
        )
    }
}
