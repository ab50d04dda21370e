internal import Foundation
internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
import Synchronization

/// Sends outcomes from the outbox to the lists of clients, and moves those for webhooks to their queue, while this
/// process leads.
///
/// At least once: entries leave the outbox after they were delivered, and a leader that dies in between leaves them to
/// its successor. A list that cannot take its outcomes loses them, so that it holds up no other. The outcomes of one
/// that cannot be reached, as its node of a Redis Cluster is away, wait beside those of the others (`AwayLists`).
struct ReplyDelivery: Sendable {
    let queue: JobQueue
    /// Name of the leader.
    let name: String
    let epoch: Int
    /// Signaled when outcomes have come into the queue of webhooks.
    var webhooks = AsyncSignal()
    let logger: Logger

    /// Maximum number of entries in one step: one has at most some 64 KiB, and Redis serves no other client meanwhile.
    private static let entriesAtOnce = 64
    /// Pause while another process leads: the tasks beside this one notice it soon, and end it.
    private static let supersededPause: Duration = .seconds(1)
    /// Maximum number of lists that are tried again at a time.
    private static let listsAtOnce = 64
    /// Interval at which the names of the lists that could not be reached are read.
    private static let readInterval: Duration = .seconds(60)
    /// Time limit of an attempt that holds up the outbox; nil for that of a command, after which the connection is
    /// closed: without a Redis Cluster it is that of all other commands of the leader.
    private var attemptTime: Duration? {
        if case .cluster = queue.redis.configuration.address { return .seconds(1) }
        return nil
    }

    /// Delivers until the task is cancelled.
    ///
    /// - Parameter wait: returns when there may be further entries.
    func run(wait: () async -> Void) async {
        let (away, warnings) = (AwayLists(), Warnings(logger: logger))
        await withDiscardingTaskGroup { group in
            group.addTask { await deliverAway(away, warnings) }
            var (failures, lastRead) = (Backoff(), ContinuousClock.Instant?.none)
            await repeating {
                do throws(RedisError) {
                    // Again from time to time, and after a failure: Redis may have returned to an earlier state.
                    if lastRead.map({ .now - $0 > Self.readInterval }) ?? true {
                        away.add(try await queue.awayLists())
                        lastRead = .now
                    }
                    let count = try await step(away, warnings)
                    failures.reset()
                    guard let count else { return Self.supersededPause }
                    if count == 0 { await wait() }
                    return .zero
                } catch {
                    if Task.isCancelled { return nil }
                    lastRead = nil
                    warnings.log(
                        .failure,
                        "outcomes cannot be sent to clients; retrying",
                        [LogKey.error: "\(error)"]
                    )
                    return failures.next(after: error)
                }
            }
            group.cancelAll()
        }
    }

    /// Delivers the outcomes of lists that could not be reached, until the task is cancelled. It is beside the steps,
    /// as an attempt takes as long as a command may.
    private func deliverAway(_ away: AwayLists, _ warnings: Warnings) async {
        await repeating {
            if away.isEmpty {
                await away.added.wait()
                return Task.isCancelled ? nil : .zero
            }
            let wasReached = await withTaskGroup(of: Bool.self) { group in
                for list in away.some(Self.listsAtOnce) {
                    group.addTask { await deliverAway(list, away, warnings) }
                }
                return await group.reduce(false) { $0 || $1 }
            }
            return wasReached ? .zero : AwayLists.pause
        }
    }

    /// Delivers the first outcomes of one of these lists.
    ///
    /// - Returns: whether it was reached.
    private func deliverAway(_ list: String, _ away: AwayLists, _ warnings: Warnings) async -> Bool {
        do throws(RedisError) {
            let additions = away.additions(to: list)
            let entries = try await queue.awayOutcomes(of: list, limit: Self.entriesAtOnce)
            let read = entries.compactMap { OutboxEntry($0) }
            var lost = entries.count - read.count
            if let last = read.last {
                let limit = try await queue.outbox(limit: 1, name: name, epoch: epoch)
                guard let limit else { return false }
                do throws(RedisError) {
                    lost += try await queue.deliver(
                        read.map(\.outcome),
                        to: list,
                        ttl: last.reply.ttl ?? JobReply.defaultTTL,
                        listBytes: limit.listBytes
                    )
                } catch  where isRefusal(error) {
                    lost += read.count
                    warnings.refused(list, read.count, error)
                }
            }
            let left = try await queue.removeAway(entries, of: list, lost: lost, name: name, epoch: epoch)
            if left == 0 { away.remove(list, after: additions) }
            return true
        } catch {
            return false
        }
    }

    /// Delivers the first entries.
    ///
    /// - Returns: their number; nil if another process leads.
    private func step(_ away: AwayLists, _ warnings: Warnings) async throws(RedisError) -> Int? {
        guard let page = try await queue.outbox(limit: Self.entriesAtOnce, name: name, epoch: epoch) else { return nil }
        let entries = page.entries
        if entries.isEmpty { return 0 }
        var (webhooks, lost): ([Int: (job: String, host: String)], Int) = ([:], 0)
        var moved: [(index: Int, list: String)] = []
        // The time to live of a list is that of its last outcome.
        var (lists, outcomes, ttls): ([String], [String: [(index: Int, Data)]], [String: Int]) = ([], [:], [:])
        for (index, data) in entries.enumerated() {
            guard let entry = OutboxEntry(data) else {
                lost += 1
                warnings.log(.damaged, "an entry of the outbox is damaged and was dropped", [:])
                continue
            }
            if let webhook = entry.reply.webhook {
                // A URL without a host is no entry.
                webhooks[index] = (entry.job, URL(string: webhook).map(OriginHost.name) ?? "")
            } else if let list = entry.reply.list {
                if away.mustWait(list, at: .now) {
                    moved.append((index, list))
                    continue
                }
                let ttl = entry.reply.ttl ?? JobReply.defaultTTL
                if ttls.updateValue(ttl, forKey: list) == nil { lists.append(list) }
                outcomes[list, default: []].append((index, entry.outcome))
            }
        }
        let deliveries = await deliver(lists.map { ($0, (outcomes[$0] ?? []).map(\.1), ttls[$0]) }, page.listBytes)
        for (list, delivered) in zip(lists, deliveries) {
            let indices = (outcomes[list] ?? []).map(\.index)
            switch delivered {
            case .success(let deleted):
                lost += deleted
                if deleted > 0 {
                    warnings.log(
                        .full,
                        "a client does not read its outcomes; the oldest of its list were deleted",
                        [LogKey.list: "\(list)", LogKey.count: "\(deleted)"]
                    )
                }
            case .failure(let error) where isRefusal(error):
                lost += indices.count
                warnings.refused(list, indices.count, error)
            case .failure(let error):
                away.failed(list, at: .now)
                moved += indices.map { ($0, list) }
                warnings.log(
                    .failure,
                    "outcomes cannot be sent to a client now; those of others do not wait for them",
                    [LogKey.list: "\(list)", LogKey.count: "\(indices.count)", LogKey.error: "\(error)"]
                )
            }
        }
        // Before they are moved: an outcome of one of these lists must not be sent directly from now on.
        let movedLists = Set(moved.map(\.list))
        away.add(movedLists)
        let dropped = try await queue.removeReplies(
            entries,
            moved: moved.sorted { $0.index < $1.index },
            lost: lost,
            webhooks: webhooks.sorted { $0.key < $1.key }.map { ($0.key, $0.value.host) },
            name: name,
            epoch: epoch
        )
        // Once more: a list may have been found empty in between, and forgotten.
        if !movedLists.isEmpty { away.add(movedLists) }
        for index in dropped {
            guard let (job, host) = webhooks[index] else { continue }
            WebhookDelivery.logDropped(
                job: job,
                host: host,
                attempts: 0,
                reason: "too many bytes wait for this host, or for webhooks in all (--outcome-limit)",
                logger: logger
            )
        }
        if !webhooks.isEmpty { self.webhooks.signal() }
        return entries.count
    }

    /// Appends outcomes to the lists of clients, at most one for each entry of a step, all at once: a client may have a
    /// list for each of its jobs, and one after the other each would take a round trip.
    ///
    /// - Returns: for each list the number of outcomes that were deleted from it, or the error.
    private func deliver(
        _ lists: [(list: String, outcomes: [Data], ttl: Int?)],
        _ listBytes: Int
    ) async -> [Result<Int, RedisError>] {
        await withTaskGroup(of: (Int, Result<Int, RedisError>).self) { group in
            for (index, item) in lists.enumerated() {
                group.addTask {
                    do throws(RedisError) {
                        let deleted = try await queue.deliver(
                            item.outcomes,
                            to: item.list,
                            ttl: item.ttl ?? JobReply.defaultTTL,
                            listBytes: listBytes,
                            timeout: attemptTime
                        )
                        return (index, .success(deleted))
                    } catch {
                        return (index, .failure(error))
                    }
                }
            }
            var results = [Result<Int, RedisError>](repeating: .success(0), count: lists.count)
            for await (index, result) in group { results[index] = result }
            return results
        }
    }

    /// Whether a repetition would have the same error: the key has another type, or may not be written.
    private func isRefusal(_ error: RedisError) -> Bool {
        [.server, .authentication].contains(error.code)
    }
}

/// Warnings of a `ReplyDelivery`, each kind at most once in an interval.
private final class Warnings: Sendable {
    enum Kind { case failure, refused, full, damaged }

    private let times = Mutex<[Kind: ContinuousClock.Instant]>([:])
    private let logger: Logger

    private static let interval: Duration = .seconds(60)

    init(logger: Logger) { self.logger = logger }

    func log(_ kind: Kind, _ message: Logger.Message, _ metadata: Logger.Metadata) {
        let isDue = times.withLock { times in
            if let last = times[kind], .now - last < Self.interval { return false }
            times[kind] = .now
            return true
        }
        if isDue { logger.warning(message, metadata: metadata) }
    }

    func refused(_ list: String, _ count: Int, _ error: RedisError) {
        log(
            .refused,
            """
            outcomes were dropped, as Redis refuses the list of a client: the key must be a list or free, and one that \
            the Redis user of this process may write
            """,
            [LogKey.list: "\(list)", LogKey.count: "\(count)", LogKey.error: "\(error)"]
        )
    }
}
