package import MegatonRedis

/// A host of origins as the fleet has seen it: its limits and its circuit breaker.
package struct HostState: Sendable, Equatable {
    /// Host and port.
    package let name: String
    /// Remaining fraction of the limits, 1/64 to 1: below 1 after the host has asked for fewer requests.
    package let factor: Double
    /// Seconds until the next request, as the host asked for a pause; 0 if it did not.
    package let blockedFor: Double
    /// Consecutive failures.
    package let failures: Int
    /// Seconds until the next probe of an open circuit breaker; 0 if it is closed.
    package let openFor: Double
    /// Whether a probe of an open circuit breaker is due or under way, so that its outcome is not known yet.
    package let isProbed: Bool
    /// The code and the message of the last of its consecutive failures, without URLs; nil if it has none, or if the
    /// reason is not known.
    package let lastFailure: String?

    /// Milliseconds after which a probe has an outcome: later, no job asks for the host.
    private static let probeTime: Double = 60_000

    /// - Parameters:
    ///   - text: the numbers of `hostPrelude`, and perhaps a word with the last failure.
    ///   - now: milliseconds of the clock of Redis.
    /// - Returns: nil if another program wrote the text.
    init?(_ name: String, stored text: String, now: Double) {
        let words = text.split(separator: " ")
        let numbers = words.compactMap { Double($0) }
        guard numbers.count >= 6, [2, 3, 5].allSatisfy({ numbers[$0].isFinite }),
            let failures = Int(exactly: numbers[4].rounded())
        else { return nil }
        self.name = name
        factor = numbers[2]
        blockedFor = max(0, numbers[3] - now) / 1000
        self.failures = failures
        openFor = max(0, numbers[5] - now) / 1000
        let last = words.last.flatMap { Double($0) == nil ? HostFailure(word: String($0)) : nil }
        lastFailure = failures > 0 ? last?.description : nil
        isProbed = numbers[1] > 0 && numbers[5] <= now && now - numbers[5] < Self.probeTime
    }

    /// Whether the host gets fewer requests than its limits allow.
    package var isLimited: Bool { factor < 1 || blockedFor > 0 }
    /// Whether the circuit breaker is open: the host gets probes only.
    package var isOpen: Bool { openFor > 0 || isProbed }
}

extension Inspector {
    /// Hosts that are limited or whose circuit breaker is open, of all shards that answer. At most 50,000 hosts of each
    /// shard are known; they are read in pages, which never block a server.
    ///
    /// - Throws: if no shard answers, or one refuses to.
    package func restrictedHosts() async throws(RedisError) -> [HostState] {
        let hosts = try await sum(over: [:]) { (shard, all: inout [String: HostState]) async throws(RedisError) in
            for host in try await Self.hosts(shard) where host.isLimited || host.isOpen {
                // A scan may return a host twice, and several shards may know it.
                if let known = all[host.name], known.openFor >= host.openFor { continue }
                all[host.name] = host
            }
        }
        return hosts.values.sorted { $0.name < $1.name }
    }

    /// The hosts that a shard knows.
    static func hosts(_ shard: JobQueue) async throws(RedisError) -> [HostState] {
        let now = try await shard.milliseconds()
        var (hosts, cursor): ([HostState], String) = ([], "0")
        repeat {
            let reply = try await shard.redis.send([
                "HSCAN", .string(shard.keys.rate), .string(cursor), "COUNT", "500",
            ])
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
                throw JobQueue.unexpected("HSCAN")
            }
            cursor = next
            hosts += parts[1].dictionary.compactMap { HostState($0.key, stored: $0.value, now: now) }
        } while cursor != "0"
        return hosts
    }
}

extension JobQueue {
    /// The clock of Redis in milliseconds.
    func milliseconds() async throws(RedisError) -> Double {
        let time = (try await redis.send(["TIME"]).array ?? []).compactMap(\.int)
        guard time.count == 2 else { throw Self.unexpected("TIME") }
        return Double(time[0]) * 1000 + Double(time[1]) / 1000
    }
}
