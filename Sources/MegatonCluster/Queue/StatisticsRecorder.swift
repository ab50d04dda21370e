internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis
import Synchronization

/// Counters of this process, added to the control Redis every few seconds in one round trip.
final class StatisticsRecorder: Sendable {
    private struct Counts {
        var fields: [String: Int] = [:]
        var hosts: [String: Int] = [:]
        var originals: [String] = []
    }

    private struct Sample {
        /// The thumbnail that the next flush adds.
        var thumbnail: RecentThumbnail?
        /// When the next one is taken.
        var start: ContinuousClock.Instant?
    }

    private let counts = Mutex(Counts())
    private let sample = Mutex(Sample())

    /// Shortest time between two thumbnails of a process: they are for people, and a fleet has many processes.
    private static let thumbnailInterval: Duration = .seconds(2)

    /// Maximum number of hosts, and of originals, between two flushes; others count only in the totals.
    private static let limit = 10_000

    func add(_ field: String, _ number: Int) {
        counts.withLock { $0.fields[field, default: 0] += number }
    }

    /// Counts the cost of one pipeline request.
    func add(_ cost: PipelineMetrics.Counts, of url: URL) {
        if cost.originFetches > 0 {
            addFetches(cost.originFetches, host: HostName.canonical(of: url), original: url.absoluteString)
        }
        if cost.revalidations > 0 { add("revalidations", cost.revalidations) }
        add("renders", cost.renders)
        add("renders_by_planes", cost.rendersByPlanes)
        add("renders_left_by_planes", cost.planarFallbacks)
        add("renditions_cached", cost.cacheHits)
        add("bytes_fetched", cost.bytesIn)
    }

    /// Counts requests to an origin.
    func addFetches(_ number: Int, host: String, original: String) {
        counts.withLock { counts in
            counts.fields["origin_fetches", default: 0] += number
            if counts.hosts[host] != nil || counts.hosts.count < Self.limit {
                counts.hosts[host, default: 0] += number
            }
            if counts.originals.count < Self.limit { counts.originals.append(Checksum.sha256(Data(original.utf8))) }
        }
    }

    /// Takes the thumbnail of a job that has ended, unless another one was taken a moment ago.
    func add(thumbnailOf outcome: JobOutcome, batch: String, at now: ContinuousClock.Instant = .now) {
        // Nearly all jobs of a busy worker end here.
        let isDue = sample.withLock { $0.start.map { $0 <= now } ?? true }
        guard isDue, let thumbnail = RecentThumbnail(outcome, batch: batch) else { return }
        sample.withLock { sample in
            sample.thumbnail = thumbnail
            sample.start = now + Self.thumbnailInterval
        }
    }

    /// Commands that add a thumbnail to those of the queue.
    private static func commands(adding thumbnail: RecentThumbnail, _ keys: QueueKeys) -> [RedisCommand] {
        let key = RedisArgument.string(keys.thumbnails)
        return [
            ["LPUSH", key, .string(WireJSON.text(thumbnail))],
            ["LTRIM", key, "0", .int(RecentThumbnail.maximumCount - 1)],
        ]
    }

    /// Adds the counts since the last flush. If that fails they are kept for the next one.
    func flush(to queue: JobQueue) async throws(RedisError) {
        let taken = counts.withLock { counts in
            defer { counts = Counts() }
            return counts
        }
        var commands: [RedisCommand] = taken.fields.map { field, number in
            ["HINCRBY", .string(queue.keys.stat), .string(field), .int(number)]
        }
        commands += taken.hosts.map { host, number in
            ["HINCRBY", .string(queue.keys.statHosts), .string(host), .int(number)]
        }
        if !taken.originals.isEmpty {
            commands.append(
                RedisCommand(["PFADD", .string(queue.keys.statDistinct)] + taken.originals.map { .string($0) })
            )
        }
        let thumbnail = sample.withLock { sample in
            defer { sample.thumbnail = nil }
            return sample.thumbnail
        }
        let further = thumbnail.map { Self.commands(adding: $0, queue.keys) } ?? []
        do throws(RedisError) {
            let replies = try await queue.redis.pipeline(commands + further)
            // A thumbnail that cannot be added is dropped: the counts would be added again for it.
            for case .error(let text) in replies.prefix(commands.count) { throw RedisError(reply: text) }
        } catch {
            // Counts may be added twice, as Redis may have applied some commands: a little too much is better than
            // nothing.
            counts.withLock { counts in
                counts.fields.merge(taken.fields, uniquingKeysWith: +)
                counts.hosts.merge(taken.hosts, uniquingKeysWith: +)
                counts.originals = Array((taken.originals + counts.originals).prefix(Self.limit))
            }
            throw error
        }
    }
}
