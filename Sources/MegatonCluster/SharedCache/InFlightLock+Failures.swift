internal import Foundation
internal import Logging
package import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

// Flights that end without an entry, and the failures that are remembered of them.
extension InFlightLock {
    /// Ends a flight without an entry.
    ///
    /// - Parameter error: nil if nothing failed; a remembered failure then stays.
    func end(_ lead: SingleFlight.Leader, error: ImagePipeline.Error?) async {
        guard let token = lead.token, !lead.isUnlocked else { return }
        let memory = error.flatMap { RememberedFailure.memory(of: $0, for: lead.key, negatives) }
        do {
            let why = try error.map { try JSONEncoder().encode($0) } ?? Data()
            try await cache.redis.run(
                FlightScripts.failFlight,
                keys: [
                    CacheKeys.flight(lead.key), CacheKeys.negative(lead.key), CacheKeys.entry(lead.key),
                ],
                arguments: [
                    .string(owner), .int(token), .int(memory?.lifetime.wholeMilliseconds ?? -1),
                    .buffer(ByteBuffer(bytes: why)), .string(CacheKeys.channel(lead.key)),
                    .string(lead.key.description), error?.supersedesEntry == true ? "1" : "0",
                    .string((memory?.kind ?? .usual).rawValue),
                ]
            )
            await note(.land, of: lead, result: "failed")
        } catch {
            // The flight ends when its lease expires.
            logger.debug("cannot end a flight; its lease will expire", metadata: [LogKey.error: "\(error)"])
        }
    }

    package func remember(_ error: ImagePipeline.Error?, for key: CacheKey) async {
        let forgotten = (lifetime: Duration.zero, kind: RememberedFailure.Kind.usual)
        guard let memory = error.map({ RememberedFailure.memory(of: $0, for: key, negatives) }) ?? forgotten else {
            return
        }
        do {
            let why = try error.map { try JSONEncoder().encode($0) } ?? Data()
            try await cache.redis.run(
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
            let replies = try await cache.redis.pipeline([["GET", name], ["PTTL", name]])
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
            let replies = try await cache.redis.pipeline([
                ["UNLINK", .string(CacheKeys.entry(key)), .string(CacheKeys.negative(key))],
                ["PUBLISH", .string(CacheKeys.channel(key)), .string(CacheKeys.deletion(of: key))],
            ])
            for case .error(let text) in replies { throw RedisError(reply: text) }
        } catch {
            statistics?.add("cache_errors", 1)
            logger.debug("cannot delete a cache entry", metadata: [LogKey.error: "\(error)"])
        }
    }
}
