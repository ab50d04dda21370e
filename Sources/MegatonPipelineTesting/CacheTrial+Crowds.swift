import Foundation
import MegatonPipeline

extension CacheTrial {
    /// Number of concurrent tasks, and rounds of each.
    private static let crowd = 16, rounds = 20

    func manyOwners() async throws(ConformanceFailure) {
        try await crowd { (owner) async throws(ConformanceFailure) in
            let own = key("owner \(owner)")
            for version in 0..<Self.rounds {
                await cache.storeData(stamp(own, version), for: own)
                try await require(own, holds: stamp(own, version))
            }
        }
        // All tasks have finished writing now.
        try await crowd { (owner) async throws(ConformanceFailure) in
            let own = key("owner \(owner)")
            try await require(own, holds: stamp(own, Self.rounds - 1))
        }
    }

    func manyWriters() async throws(ConformanceFailure) {
        let keys = (0..<4).map { key("shared \($0)") }
        for key in keys { await cache.storeData(stamp(key, 0), for: key) }
        try await crowd { (member) async throws(ConformanceFailure) in
            for round in 0..<Self.rounds {
                if member.isMultiple(of: 2) {
                    let key = keys[(member / 2 + round) % keys.count]
                    await cache.storeData(stamp(key, member * Self.rounds + round), for: key)
                    continue
                }
                let found = await cache.cachedData(for: keys)
                try require(found.count == keys.count, "\(found.count) results for \(keys.count) keys")
                for (key, data) in zip(keys, found) { try requireStamp(data, of: key) }
                try requireStamp(await cache.cachedData(for: keys[0]), of: keys[0])
            }
        }
    }

    private func requireStamp(_ data: Data?, of key: String) throws(ConformanceFailure) {
        guard let data else {
            try require(false, "\(key) was a miss while it was being replaced; it must have an entry at all times")
            return
        }
        try require(isStamp(data, of: key), "for \(key) \(Self.text(data)) that no task has written")
    }

    /// Runs the work in `crowd` concurrent tasks, and throws the first failure.
    private func crowd(
        _ work: @escaping @Sendable (Int) async throws(ConformanceFailure) -> Void
    ) async throws(ConformanceFailure) {
        let failures = await withTaskGroup(of: ConformanceFailure?.self) { group in
            for member in 0..<Self.crowd {
                group.addTask {
                    do throws(ConformanceFailure) {
                        try await work(member)
                        return nil
                    } catch {
                        return error
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        if let failure = failures.compactMap(\.self).first { throw failure }
    }
}
