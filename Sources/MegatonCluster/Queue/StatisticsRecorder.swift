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

    private let counts = Mutex(Counts())

    /// Maximum number of hosts, and of originals, between two flushes; others count only in the totals.
    private static let limit = 10_000

    func add(_ field: String, _ number: Int) {
        counts.withLock { $0.fields[field, default: 0] += number }
    }

    /// Counts the cost of one pipeline request.
    func add(_ cost: PipelineMetrics.Counts, of url: URL) {
        if cost.originFetches > 0 {
            addFetches(cost.originFetches, host: (url.host() ?? "").lowercased(), original: url.absoluteString)
        }
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
        do throws(RedisError) {
            for case .error(let text) in try await queue.redis.pipeline(commands) { throw RedisError(reply: text) }
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
