internal import Foundation
internal import Logging
package import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

// Flights that end without an entry, and the failures that are remembered of them.
extension InFlightLock {
    /// Ends a flight without an entry.
    ///
    /// - Parameters:
    ///   - error: nil if nothing failed; a remembered failure then stays.
    ///   - isFull: whether the flight ends because the cache is full: its waiters then lead in parallel, as the next
    ///     entry could not be stored either.
    ///   - deletesEntry: whether the entry of an earlier flight is no longer valid. An error may say so too.
    func end(
        _ lead: SingleFlight.Leader,
        error: ImagePipeline.Error?,
        isFull: Bool = false,
        deletesEntry: Bool = false
    ) async {
        guard let token = lead.token, !lead.isUnlocked else { return }
        let memory = error.flatMap { RememberedFailure.memory(of: $0, for: lead.key, negatives) }
        do {
            let why = try error.map { try JSONEncoder().encode($0) } ?? Data()
            let milliseconds = memory?.lifetime.wholeMilliseconds ?? (isFull ? -2 : -1)
            let call = failure(
                of: lead,
                token: token,
                why: why,
                milliseconds: milliseconds,
                supersedesEntry: deletesEntry || error?.supersedesEntry == true,
                kind: memory?.kind ?? .usual
            )
            try await cache.nodes[lead.key].redis.run(
                FlightScripts.failFlight,
                keys: call.keys,
                arguments: call.arguments
            )
            await note(.land, of: lead, result: isFull ? "full" : "failed")
        } catch {
            // The flight ends when its lease expires.
            logger.debug("cannot end a flight; its lease will expire", metadata: [LogKey.error: "\(error)"])
        }
    }

    /// The keys and arguments of a call of `failFlight`.
    ///
    /// - Parameters:
    ///   - why: the error as JSON; empty if there is none.
    ///   - milliseconds: how long the error is remembered; -1 for not at all, -2 if the cache is full.
    func failure(
        of lead: SingleFlight.Leader,
        token: Int,
        why: Data = Data(),
        milliseconds: Int = -1,
        supersedesEntry: Bool = false,
        kind: RememberedFailure.Kind = .usual
    ) -> (keys: [String], arguments: [RedisArgument]) {
        (
            [CacheKeys.flight(lead.key), CacheKeys.negative(lead.key), CacheKeys.entry(lead.key)],
            [
                .string(owner), .int(token), .int(milliseconds), .buffer(ByteBuffer(bytes: why)),
                .string(CacheKeys.landing(lead.key)), .string(lead.key.description), supersedesEntry ? "1" : "0",
                .string(kind.rawValue), .string(CacheKeys.deletions),
            ]
        )
    }

    package func remember(_ error: ImagePipeline.Error?, for key: CacheKey) async {
        // The origin was not asked: what it has answered before, e.g. a Retry-After, still holds.
        if error?.code == .throttled { return }
        let forgotten = (lifetime: Duration.zero, kind: RememberedFailure.Kind.usual)
        guard let memory = error.map({ RememberedFailure.memory(of: $0, for: key, negatives) }) ?? forgotten else {
            return
        }
        do {
            let why = try error.map { try JSONEncoder().encode($0) } ?? Data()
            try await cache.nodes[key].redis.run(
                FlightScripts.rememberFailure,
                keys: [CacheKeys.negative(key)],
                arguments: [
                    .int(memory.lifetime.wholeMilliseconds), .buffer(ByteBuffer(bytes: why)),
                    .string(memory.kind.rawValue),
                ]
            )
        } catch {
            statistics?.add("cache_errors", 1)
            logger.debug("cannot remember a failure", metadata: [LogKey.error: "\(error)"])
        }
    }

    package func bindingFailure(for key: CacheKey) async -> ImagePipeline.Error? {
        let name = RedisArgument.string(CacheKeys.negative(key))
        do {
            let replies = try await cache.nodes[key].redis.pipeline([["GET", name], ["PTTL", name]])
            for case .error(let text) in replies { throw RedisError(reply: text) }
            guard replies.count == 2, RememberedFailure(replies[0])?.kind == .binding, let left = replies[1].int,
                left > 0
            else { return nil }
            statistics?.add("negatives", 1)
            return RememberedFailure.error(replies[0], millisecondsLeft: left)
        } catch {
            statistics?.add("cache_errors", 1)
            logger.debug("cannot look up a remembered failure", metadata: [LogKey.error: "\(error)"])
            return nil
        }
    }

    package func discard(_ key: CacheKey) async {
        do {
            try await cache.nodes[key].redis.run(
                FlightScripts.discardEntry,
                keys: [CacheKeys.entry(key), CacheKeys.negative(key)],
                arguments: [.string(CacheKeys.deletions), .string(key.description)]
            )
        } catch {
            statistics?.add("cache_errors", 1)
            logger.debug("cannot delete a cache entry", metadata: [LogKey.error: "\(error)"])
        }
    }
}
