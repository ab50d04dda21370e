internal import Logging
internal import MegatonRedis

/// Deletes ended batches, outcomes and dead letters whose time is over, or for which there is no room, until its task
/// is cancelled.
///
/// It works in small steps beside the leader's rounds, and repeats them while there is more to delete, so that it keeps
/// up with any rate and no job waits for it.
struct RetentionKeeper: Sendable {
    let queue: JobQueue
    /// How long a batch is remembered after its end.
    var batches: Duration
    var retention: Retention
    /// Whether to prefer the settings of the last leader: a worker that takes over has no options for this, and must
    /// not delete what a coordinator keeps.
    var isFallback = false
    let logger: Logger

    private static let interval: Duration = .seconds(1)
    private static let lettersAtOnce = 256
    private static let batchesAtOnce = 100
    /// Pages of batches that one step looks through if all of them have an unfinished job; those behind may have none.
    private static let pagesInUse = 20
    private static let ledgersAtOnce = 16
    /// Batches whose outcomes one step looks for: there may be a million, and none of them may have any.
    static let ledgersInAStep = 1024

    func run() async {
        var keeper: (RetentionKeeper, Retention.Limits)?
        var offset = 0
        await repeating {
            do throws(RedisError) {
                if keeper == nil { keeper = try await configured() }
                if let (keeper, limits) = keeper { offset = try await keeper.tidy(limits, offset: offset) }
            } catch {
                logger.debug("cannot delete ended work", metadata: [LogKey.error: "\(error)"])
            }
            return Self.interval
        }
    }

    /// The keeper with its final settings.
    func configured() async throws(RedisError) -> (RetentionKeeper, Retention.Limits) {
        var keeper = self
        if isFallback, let published = try await queue.publishedRetention() {
            (keeper.batches, keeper.retention) = published
        }
        return (keeper, keeper.retention.limits(memory: try await memory()))
    }

    /// `maxmemory` of Redis; 0 if it has none or may not be asked for it.
    private func memory() async throws(RedisError) -> Int {
        do throws(RedisError) {
            return Inspector.field("maxmemory", in: try await queue.redis.send(["INFO", "memory"]).string ?? "")
        } catch {
            guard error.isCommandRefused else { throw error }
            return 0
        }
    }

    /// Deletes all that is due.
    ///
    /// - Parameter offset: number of batches whose outcomes the last step has looked for.
    /// - Returns: the offset of the next step.
    @discardableResult
    func tidy(_ limits: Retention.Limits, offset: Int = 0) async throws(RedisError) -> Int {
        var letters = 0
        repeat {
            letters = try await queue.expireDeadLetters(
                olderThan: retention.deadLetters,
                limits: limits,
                limit: Self.lettersAtOnce,
                batches: batches
            )
        } while letters == Self.lettersAtOnce && !Task.isCancelled
        var (hasMore, pagesInUse) = (true, 0)
        while hasMore && pagesInUse < Self.pagesInUse && !Task.isCancelled {
            let page = try await queue.forgetBatches(endedFor: batches, limit: Self.batchesAtOnce)
            hasMore = page.hasMore
            pagesInUse = page.forgotten > 0 ? 0 : pagesInUse + 1
        }
        return try await makeRoom(limits.outcomes, from: offset)
    }

    /// Deletes outcomes of ended batches if those of all batches take more than seven eighths of their limit, so that
    /// there is room for new ones.
    ///
    /// - Returns: the offset at which the next step continues.
    private func makeRoom(_ limit: Int, from start: Int) async throws(RedisError) -> Int {
        var excess = try await queue.outcomeBytes() - (limit - limit / 8)
        if excess <= 0 { return 0 }
        var (offset, hasMore, freed) = (start, true, 0)
        while excess > 0 && hasMore && offset < start + Self.ledgersInAStep && !Task.isCancelled {
            let page = try await queue.dropOutcomes(offset: offset, limit: Self.ledgersAtOnce)
            excess -= page.freed
            freed += page.freed
            offset += Self.ledgersAtOnce
            hasMore = page.hasMore
        }
        if freed > 0 {
            logger.warning(
                "outcomes of ended batches that no reader had received were deleted to make room",
                metadata: [LogKey.bytes: "\(freed)"]
            )
        }
        return excess > 0 && hasMore ? offset : 0
    }
}
