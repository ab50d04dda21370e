internal import MegatonRedis

/// A batch of jobs in a cluster. It continues on the cluster however its value is used.
public struct Batch: Sendable {
    /// The batch's name.
    public let name: String
    /// Number of jobs; nil if this client did not submit them.
    let submitted: Int?
    let client: ClusterClient

    /// The outcomes in the order in which the jobs ended, while they arrive.
    ///
    /// - **Memory.** Outcomes are read when the iteration asks for them, a page of about a megabyte at a time. The
    ///   others stay in Redis.
    /// - **End.** The iteration ends when the batch has ended and all outcomes were read. A batch ends if its submitter
    ///   has closed it, as ``ClusterClient/submit(_:batch:deduplicates:weight:)`` and `megaton submit` do. Jobs of a
    ///   cancelled batch that the cluster had not taken in have no outcome; every other job has one.
    /// - **Errors.** The iteration throws ``ClusterError`` if the outcomes cannot be read: the batch is unknown or
    ///   keeps no outcomes, or Redis lost jobs or outcomes. So it does if, for the client's idle time-out, Redis is
    ///   unreachable, no worker runs, or all jobs have ended of a batch that another submitter has not closed
    ///   (``ClusterError/Code/notClosed``).
    /// - **Several readers.** Outcomes leave Redis when the iteration asks for those behind them. A later iteration,
    ///   also of another process, begins with the first page that was not left, so that an outcome may be read twice,
    ///   but none is missed. In a queue with several shards, the last page of each shard may be read twice. Of two
    ///   iterations at the same time, the one that falls behind throws ``ClusterError/Code/otherReader``.
    /// - **A Redis that went back.** If Redis returns to an earlier state, in a failover or by a restart from an older
    ///   file, the iteration continues with what Redis has, and skips outcomes of ids that it has returned.
    public var outcomes: some AsyncSequence<JobOutcome, any Error> & Sendable {
        BatchOutcomes(batch: self, number: nil)
    }

    /// The outcomes from a number on, for a reader that has stored those before: the first outcome of a batch has the
    /// number 1. Otherwise like ``outcomes``; those before that number are deleted. If Redis has fewer outcomes,
    /// because it returned to an earlier state, all that it has are returned. Each shard of a queue has its own
    /// numbers: if there are several, the iteration throws, unless the number is 1.
    public func outcomes(from number: Int) -> some AsyncSequence<JobOutcome, any Error> & Sendable {
        BatchOutcomes(batch: self, number: number)
    }

    /// The current counters, such as `done`; all 0 if the batch is unknown.
    ///
    /// - Throws: ``ClusterError``.
    public func counters() async throws -> BatchCounters {
        do {
            return try await BatchMonitor(queue: try await client.queue(isFresh: false), batch: name).counters()
        } catch {
            throw ClusterError(error)
        }
    }

    /// Closes the batch, so that it ends with the last of its jobs: for a batch whose submitter has died, and for one
    /// whose jobs were pushed to the public list.
    ///
    /// - Parameter expected: number of jobs that were pushed in all, so that the batch does not end while some of them
    ///   are still in the public list; nil if unknown.
    /// - Throws: ``ClusterError``, with the code ``ClusterError/Code/unknownBatch`` if there is no batch of this name.
    public func close(expected: Int? = nil) async throws {
        do {
            try await client.queue().close(batch: name, expected: expected)
        } catch {
            throw ClusterError(error)
        }
    }

    /// Cancels the jobs that have not ended. Running jobs end within seconds.
    ///
    /// - Throws: ``ClusterError``, with the code ``ClusterError/Code/unknownBatch`` if there is no batch of this name.
    public func cancel() async throws {
        do {
            try await client.queue().cancel(batch: name)
        } catch {
            throw ClusterError(error)
        }
    }
}
