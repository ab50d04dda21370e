import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonRedis
import NIOPosix

/// Reads the outcomes of a batch that another process has submitted, and continues the ledger of a reader that died.
struct LedgerReading: Sendable {
    let queue: ShardedQueue
    /// A connection for blocking commands.
    let waiting: RedisClient
    let batch: String
    /// Number of the first outcome; nil for the first one that is left.
    let from: Int?
    /// Whether to wait for the end of the batch.
    let follows: Bool
    /// Nil for standard output. Outcomes that are in a ledger are deleted from Redis, others stay.
    let ledger: Ledger?
    let deadline: ContinuousClock.Instant?
    let shutdown: ShutdownSignal

    private static let retryInterval: Duration = .seconds(1)
    private static let pollInterval: Duration = .milliseconds(250)

    /// Reads until the end of the batch, or until Redis has no more outcomes.
    ///
    /// - Returns: the exit code: 0, 2 if jobs of an ended batch failed or were cancelled, 69 if outcomes are missing:
    ///   Redis has lost them, or another reader has deleted them.
    func run() async throws -> Int32 {
        let monitor = BatchMonitor(queue: queue, batch: batch)
        let counters = try await monitor.counters()
        try check(counters)
        let start = try await start(counters)
        var known = start.known
        var cursor = OutcomeCursors(
            queue: queue,
            batch: batch,
            histories: start.histories,
            acknowledges: ledger != nil
        )
        let isContinued = cursor.history.number > 0 && from == nil && ledger != nil
        if follows { reportOpen(counters) }
        var written = 0
        var isLast = false
        while true {
            if shutdown.level > .none { throw interrupted(written, cursor.history) }
            let returns = cursor.history.returns
            guard let page = try await next(&cursor) else { continue }
            let lines = known.missing(from: page)
            if cursor.history.returns > returns {
                if isContinued && returns == 0 && written == 0 {
                    reportOtherEnd()
                } else {
                    cursor.history.reportReturn()
                }
            }
            if !page.isEmpty {
                if try await !write(lines) { return 0 }
                written += lines.count
                // A batch that goes on must not keep the command beyond its time.
                if follows, isTimeOver, try await !isOver(monitor) { throw timeIsOver(written, cursor.history) }
                continue
            }
            if isLast || !follows { break }
            isLast = try await isOver(monitor)
            if isLast { continue }
            if isTimeOver { throw timeIsOver(written, cursor.history) }
            try await wait(monitor)
        }
        let code = try await end(monitor, cursor.history, skipped: start.skipped, received: start.stored + written)
        return start.taken > 0 ? 69 : code
    }

    private func check(_ counters: BatchCounters) throws {
        guard counters.isKnown else { throw CLIError.notFound("there is no batch \"\(batch)\".") }
        guard counters["ledger"] == 1 else {
            throw CLIError.notFound(
                "the batch \"\(batch)\" keeps no outcomes: submit it with --wait or --keep-outcomes. megaton batch "
                    + "show \(batch) has its counters, and megaton dead list --batch \(batch) its failed jobs."
            )
        }
    }

    /// The outcomes that a reader has or does not want when it begins.
    private struct Start {
        /// Those of each shard.
        let histories: [OutcomeHistory]
        /// Number of outcomes that the reader does not want, or that another reader has.
        let skipped: Int
        /// Of these, the number that the reader wants and another reader has deleted.
        var taken = 0
        /// Number of lines in the ledger.
        let stored: Int
        /// The lines of the ledger that the shards may still have.
        var known = LedgerLines()
    }

    /// The lines of a ledger do not say from which shard they came. The outcomes that a shard has deleted are in the
    /// ledger or lost; the others are read again, and skipped if the ledger has the same line.
    private func start(_ counters: BatchCounters) async throws -> Start {
        if !queue.isDivided { return try await startOfOneShard(counters) }
        var known = try await ledger?.resumedLines() ?? LedgerLines()
        let stored = known.count
        let read = try await queue.readCounts(of: batch)
        // Outcomes that were deleted to make room count as read, and are not in the ledger.
        let others = read.reduce(0, +) - counters["results_dropped"]
        if stored == 0 && others > 0 { reportOtherReader(others, counters) }
        known.limit(to: stored - others)
        return Start(
            histories: OutcomeHistories(after: read).all,
            skipped: stored == 0 ? max(0, others) : 0,
            taken: stored == 0 ? max(0, others) : 0,
            stored: stored,
            known: known
        )
    }

    private func reportOtherReader(_ read: Int, _ counters: BatchCounters) {
        Terminal.error("megaton: \(Self.otherReader(read, counters))")
    }

    /// The sentence about outcomes that another reader has.
    static func otherReader(_ read: Int, _ counters: BatchCounters) -> String {
        let hasMore = !counters.isFinished || counters["outcomes"] > read
        return "the first \(Counted.of(read, "outcome")) of the batch \(read == 1 ? "was" : "were") read by another "
            + "reader, such as a megaton submit --wait with its ledger, and deleted; "
            + "\(hasMore ? "the others follow" : "there are no others")."
    }

    /// The message about a number behind that of the next outcome. The script `results` would take it for that of a
    /// reader that has more outcomes than Redis, after a failover, and return all.
    static func isBeyond(_ number: Int, _ outcomes: Int, _ batch: String, hasEnded: Bool) -> String {
        "--from \(number) is too large: the batch \"\(batch)\" has \(Counted.of(outcomes, "outcome"))"
            + "\(hasEnded ? "" : " up to now"), so that --from may be at most \(outcomes + 1)"
            + "\(hasEnded ? "" : ", with which --follow waits for the next"). If a reader has had more, Redis has "
            + "returned to an earlier state and numbers outcomes anew: read them without --from."
    }

    private func startOfOneShard(_ counters: BatchCounters) async throws -> Start {
        // A ledger that was begun with --from, or behind the outcomes of another reader, has fewer lines than the
        // number of its last outcome. Without that number, the outcomes before its lines would count as missing.
        let mark = try await queue.first.batch(batch)["mark"] ?? ""
        let stored = try await ledger?.resume(at: mark) ?? OutcomeHistory()
        if stored.number > stored.lines {
            let skipped = stored.number - stored.lines
            let taken = max(0, skipped - ((from ?? 1) - 1))
            if taken > 0 { reportOtherReader(skipped, counters) }
            return Start(histories: [stored], skipped: skipped, taken: taken, stored: stored.lines)
        }
        if let from {
            guard stored.number == 0 else {
                throw CLIError.usage(
                    "--from does not go with the ledger \(ledger?.path ?? ""), which has "
                        + "\(Counted.of(stored.number, "line")): it is continued behind its last line."
                )
            }
            let outcomes = max(counters["outcomes"], counters["read"])
            guard from <= outcomes + 1 else {
                let hasEnded = counters.isFinished
                throw CLIError.usage(Self.isBeyond(from, outcomes, batch, hasEnded: hasEnded))
            }
            // As without a number: another reader has these, and they are not missing.
            let read = counters["read"]
            if read >= from { reportOtherReader(read, counters) }
            let skipped = max(read, from - 1)
            let taken = max(0, read - from + 1)
            return Start(histories: [OutcomeHistory(after: skipped)], skipped: skipped, taken: taken, stored: 0)
        }
        let read = counters["read"]
        guard stored.number == 0, read > 0 else {
            return Start(histories: [stored], skipped: 0, stored: stored.number)
        }
        reportOtherReader(read, counters)
        return Start(histories: [OutcomeHistory(after: read)], skipped: read, taken: read, stored: 0)
    }

    private func reportOpen(_ counters: BatchCounters) {
        guard let advice = BatchReport(BatchSummary(name: batch, counters: counters)).waitAdvice else { return }
        Terminal.error("megaton: \(advice)")
    }

    private func reportOtherEnd() {
        Terminal.error(
            "megaton: the last line of the ledger is not the outcome that the batch \(batch) has at this place: Redis "
                + "has returned to an earlier state, or the ledger is that of another batch. Jobs that have a line are "
                + "skipped."
        )
    }

    /// Nil if Redis is unreachable for the moment.
    private func next(_ cursor: inout OutcomeCursors) async throws -> [Data]? {
        do {
            return try await cursor.next()
        } catch {
            guard error.isTransient && follows else { throw error }
            if let deadline, ContinuousClock.now >= deadline { throw error }
            if cursor.hasNewFailure { Terminal.error("megaton: waiting for Redis: \(error.message)") }
            try await Task.sleep(for: Self.retryInterval)
            return nil
        }
    }

    /// - Returns: false if standard output was closed: `head` has read enough.
    private func write(_ lines: [Data]) async throws -> Bool {
        if let ledger {
            try await ledger.append(lines)
            return true
        }
        return try lines.allSatisfy { try Terminal.output(JSONText.escaped(String(decoding: $0, as: UTF8.self))) }
    }

    private func isOver(_ monitor: BatchMonitor) async throws -> Bool {
        do {
            let counters = try await monitor.counters()
            guard counters.isKnown else {
                throw CLIError(
                    code: 69,
                    message: "Redis no longer has the batch \"\(batch)\": it was forgotten, or Redis has lost it."
                )
            }
            return counters.isFinished || counters.lacksOnlyLostParts
        } catch let error as RedisError {
            // `next` meets the same error and reports it.
            guard error.isTransient else { throw error }
            return false
        }
    }

    private func wait(_ monitor: BatchMonitor) async throws {
        guard ledger != nil else { return try await Task.sleep(for: Self.pollInterval) }
        do {
            try await monitor.waitForOutcome(on: waiting)
        } catch {
            guard error.isTransient else { throw error }
            try await Task.sleep(for: Self.pollInterval)
        }
    }

    private var isTimeOver: Bool { deadline.map { ContinuousClock.now >= $0 } ?? false }

    private func timeIsOver(_ written: Int, _ history: OutcomeHistories) -> CLIError {
        CLIError(
            code: 75,
            message:
                "the batch \"\(batch)\" has not ended; \(Counted.of(written, "outcome")) read. \(continuation(history))"
        )
    }

    private func interrupted(_ written: Int, _ history: OutcomeHistories) -> CLIError {
        CLIError(
            code: 130,
            message:
                "interrupted after \(Counted.of(written, "outcome")); the batch continues. \(continuation(history))"
        )
    }

    /// How to read the outcomes that follow. Without a ledger they stay in Redis, and the same command begins anew.
    private func continuation(_ history: OutcomeHistories) -> String {
        if ledger != nil { return "The same command again continues." }
        return queue.isDivided
            ? "The same command begins anew; with --ledger FILE it can be continued."
            : "The same command with --from \(history.number + 1) continues."
    }

    private func end(
        _ monitor: BatchMonitor,
        _ history: OutcomeHistories,
        skipped: Int,
        received: Int
    ) async throws -> Int32 {
        let counters = try await monitor.counters()
        let gaps = OutcomeGaps(counters, deleted: history.deleted, skipped: skipped, received: received)
        for line in gaps.report(of: batch) { Terminal.error("megaton: \(line)") }
        if follows {
            Terminal.error("megaton: \(BatchReport(BatchSummary(name: batch, counters: counters)).row)")
        }
        if let error = BatchReport.lostPart(counters, of: batch) { throw error }
        if !gaps.isEmpty { return 69 }
        return follows && counters["failed"] + counters["cancelled"] > 0 ? 2 : 0
    }
}
