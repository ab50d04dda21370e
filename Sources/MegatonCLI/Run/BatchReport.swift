import MegatonCluster
import MegatonCommandLine

extension BatchReport {
    /// - Throws: `CLIError` if there is no batch of this name.
    static func of(_ name: String, _ queue: ShardedQueue) async throws -> BatchReport {
        BatchReport(BatchSummary(name: name, counters: try await counters(of: name, queue)))
    }

    /// - Throws: `CLIError` if there is no batch of this name.
    static func counters(of name: String, _ queue: ShardedQueue) async throws -> BatchCounters {
        let counters = try await BatchMonitor(queue: queue, batch: name).counters()
        guard counters.isKnown else { throw CLIError.notFound("there is no batch \"\(name)\".") }
        return counters
    }

    /// Advice for a caller that waits for the end of an open batch.
    static func isOpen(_ name: String) -> String {
        "the batch is open: its submitter may push more jobs. If the submitter has ended, megaton batch close \(name) "
            + "lets the batch end with its last job."
    }

    /// Advice for a caller that waits for the end of a batch; nil if all of its jobs are there.
    var waitAdvice: String? {
        if state == "open" { return Self.isOpen(batch) }
        guard let expected, expected > submitted else { return nil }
        let missing = Counted.of(expected - submitted, "more job")
        return "the batch waits for \(missing), as its batchSize or --jobs of batch close says. If no more come, "
            + "megaton batch close \(batch) lets the batch end with its last job."
    }

    /// The error of a caller that waits for the end of a batch that can have none, as shards have lost their part.
    static func lostPart(_ counters: BatchCounters, of name: String) -> CLIError? {
        let lost = counters.lostShards
        guard counters.lacksOnlyLostParts else { return nil }
        return CLIError(
            code: 69,
            message:
                "\(lost) of \(counters["shards"]) shards no longer \(lost == 1 ? "has its" : "have their") part of the "
                + "batch \"\(name)\": it was forgotten there, or Redis has lost it, and its jobs may not have run. "
                + "Submit the jobs without an outcome again: finished work is in the cache."
        )
    }

    /// Reports that a batch has ended, to a caller that is about to end it.
    func noteEnd() {
        if state == "finished" { Terminal.note("megaton: the batch has ended before; nothing was changed.") }
    }

    /// Reports that a batch cannot finish, to a caller that has just ended it.
    func noteLoss() {
        guard let shardsLost else { return }
        Terminal.error(
            "megaton: the batch \(batch) cannot finish, as \(Counted.of(shardsLost, "shard")) of the queue lost "
                + "\(shardsLost == 1 ? "its part" : "their parts") of it. It is forgotten some days after its other "
                + "jobs have ended, as --keep-batches of the coordinator says."
        )
    }

    var row: String {
        "\(batch)  \(state)  \(done) done, \(failed) failed, \(cancelled) cancelled, \(deduplicated) deduplicated of "
            + "\(submitted)" + (expected.map { ", \($0) expected" } ?? "")
    }
}
