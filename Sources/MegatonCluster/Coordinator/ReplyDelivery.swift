internal import Foundation
internal import Logging
internal import MegatonPipeline
internal import MegatonRedis

/// Sends outcomes from the outbox to the lists of clients, and moves those for webhooks to their queue, while this
/// process leads.
///
/// At least once: entries leave the outbox after they were delivered, and a leader that dies in between leaves them to
/// its successor. A list that cannot take its outcomes loses them, so that it holds up no other. The outcomes of one
/// that cannot be reached, as its node of a Redis Cluster is away, move behind the others (`AwayLists`).
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
    /// Pause if no list can be reached.
    private static let stuckPause: Duration = .seconds(1)
    /// Interval between two warnings of the same kind.
    private static let warningInterval: Duration = .seconds(60)

    /// Delivers until the task is cancelled.
    ///
    /// - Parameter wait: returns when there may be further entries.
    func run(wait: () async -> Void) async {
        var failures = Backoff()
        var warnings: [Warning: ContinuousClock.Instant] = [:]
        var away = AwayLists()
        await repeating {
            do throws(RedisError) {
                let step = try await step(&away, &warnings)
                failures.reset()
                switch step {
                case .superseded: return Self.supersededPause
                case .empty: await wait()
                case .stuck: return Self.stuckPause
                case .delivered: break
                }
                return .zero
            } catch {
                if Task.isCancelled { return nil }
                warn(.failure, &warnings, "outcomes cannot be sent to clients; retrying", [LogKey.error: "\(error)"])
                return failures.next(after: error)
            }
        }
    }

    private enum Step {
        /// Another process leads.
        case superseded
        case empty
        /// No list of the whole outbox can be reached.
        case stuck
        case delivered
    }

    /// Events that are logged once in an interval.
    private enum Warning { case failure, refused, full, damaged }

    private func warn(
        _ kind: Warning,
        _ warnings: inout [Warning: ContinuousClock.Instant],
        _ message: Logger.Message,
        _ metadata: Logger.Metadata
    ) {
        if let last = warnings[kind], .now - last < Self.warningInterval { return }
        warnings[kind] = .now
        logger.warning(message, metadata: metadata)
    }

    /// Delivers the first entries.
    private func step(
        _ away: inout AwayLists,
        _ warnings: inout [Warning: ContinuousClock.Instant]
    ) async throws(RedisError) -> Step {
        guard let page = try await queue.outbox(limit: Self.entriesAtOnce, name: name, epoch: epoch) else {
            return .superseded
        }
        let entries = page.entries
        if entries.isEmpty { return .empty }
        var (webhooks, lost, moved): ([Int: (job: String, host: String)], Int, [Int]) = ([:], 0, [])
        // The time to live of a list is that of its last outcome.
        var (lists, outcomes, ttls): ([String], [String: [(index: Int, Data)]], [String: Int]) = ([], [:], [:])
        for (index, data) in entries.enumerated() {
            guard let entry = OutboxEntry(data) else {
                lost += 1
                warn(.damaged, &warnings, "an entry of the outbox is damaged and was dropped", [:])
                continue
            }
            if let webhook = entry.reply.webhook {
                // A URL without a host is no entry.
                webhooks[index] = (entry.job, URL(string: webhook).map(OriginHost.name) ?? "")
            } else if let list = entry.reply.list {
                if away.mustWait(list, with: data, outbox: page.length, at: .now) {
                    moved.append(index)
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
                away.reached(list)
                lost += deleted
                if deleted > 0 {
                    warn(
                        .full,
                        &warnings,
                        "a client does not read its outcomes; the oldest of its list were deleted",
                        [LogKey.list: "\(list)", LogKey.count: "\(deleted)"]
                    )
                }
            case .failure(let error) where isRefusal(error):
                away.reached(list)
                lost += indices.count
                warn(
                    .refused,
                    &warnings,
                    """
                    outcomes were dropped, as Redis refuses the list of a client: the key must be a list or free, and \
                    one that the Redis user of this process may write
                    """,
                    [LogKey.list: "\(list)", LogKey.count: "\(indices.count)", LogKey.error: "\(error)"]
                )
            case .failure(let error):
                away.failed(list, first: indices.first.map { entries[$0] } ?? Data(), at: .now)
                moved += indices
                warn(
                    .failure,
                    &warnings,
                    "outcomes cannot be sent to a client now; they wait behind those of others",
                    [LogKey.list: "\(list)", LogKey.count: "\(indices.count)", LogKey.error: "\(error)"]
                )
            }
        }
        let dropped = try await queue.removeReplies(
            entries,
            moved: moved.sorted(),
            lost: lost,
            webhooks: webhooks.sorted { $0.key < $1.key }.map { ($0.key, $0.value.host) },
            name: name,
            epoch: epoch
        )
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
        return away.isStuck(moved: moved.count, of: entries.count, outbox: page.length) ? .stuck : .delivered
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
                            listBytes: listBytes
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
