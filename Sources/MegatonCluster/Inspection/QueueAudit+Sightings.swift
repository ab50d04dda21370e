internal import MegatonRedis

extension QueueAudit {
    /// Places in which each id was seen, each place read at another moment.
    struct Sightings {
        struct Places: OptionSet {
            let rawValue: UInt8

            static let body = Places(rawValue: 1)
            static let meta = Places(rawValue: 2)
            static let ready = Places(rawValue: 4)
            static let readyAgain = Places(rawValue: 8)
            static let lease = Places(rawValue: 16)
            static let delay = Places(rawValue: 32)
            static let dead = Places(rawValue: 64)
            static let held = Places(rawValue: 128)
        }

        private static let healthy: Set<UInt8> = [
            Places([.body, .meta, .ready]).rawValue, Places([.body, .meta, .lease]).rawValue,
            Places([.body, .meta, .delay]).rawValue, Places([.body, .meta, .held]).rawValue,
        ]

        private let limit: Int
        private var places: [String: Places] = [:]
        /// False once an id did not fit.
        private(set) var isComplete = true

        init(limit: Int) { self.limit = limit }

        var count: Int { places.count }

        mutating func record(_ id: String, in place: Places) {
            if let seen = places[id] {
                // Only a list can contain an id twice; HSCAN and ZSCAN may return one repeatedly.
                let isRepeated = place == .ready && seen.contains(.ready)
                places[id] = seen.union(isRepeated ? .readyAgain : place)
            } else if count < limit {
                places[id] = place
            } else {
                isComplete = false
            }
        }

        /// Dead ids matter only if they are alive too.
        mutating func recordDead(_ id: String) {
            if let seen = places[id] { places[id] = seen.union(.dead) }
        }

        /// Ids whose places differ from those of any healthy job.
        var candidates: [String] { places.filter { !Self.healthy.contains($0.value.rawValue) }.map(\.key) }
    }

    /// Ids per page.
    private static let pageSize = 1000
    /// Bodies per page: fewer, as Redis copies their JSON.
    private static let bodiesOfPage = 64

    /// Reads the queue.
    func sightings(limit: Int) async throws(RedisError) -> Sightings {
        let keys = queue.keys
        var sightings = Sightings(limit: limit)
        try await readBodies(into: &sightings)
        let structures: [(command: String, key: String, place: Sightings.Places)] = [
            ("HSCAN", keys.meta, .meta), ("ZSCAN", keys.lease, .lease), ("ZSCAN", keys.delay, .delay),
        ]
        for (command, key, place) in structures {
            var cursor = "0"
            repeat {
                for (id, value) in try await page(command, key, from: &cursor)
                where place != .meta || Self.isReadable(value) { sightings.record(id, in: place) }
            } while cursor != "0"
        }
        var cursor = "0"
        repeat {
            for (entry, _) in try await page("ZSCAN", keys.holding, from: &cursor) {
                if let id = HoldingEntry(entry)?.id { sightings.record(id, in: .held) }
            }
        } while cursor != "0"
        for key in keys.ready + [keys.suspects] { try await readReady(key, limit: limit, into: &sightings) }
        cursor = "0"
        repeat {
            for (id, _) in try await page("ZSCAN", keys.dead, from: &cursor) { sightings.recordDead(id) }
        } while cursor != "0"
        return sightings
    }

    private func page(
        _ command: String,
        _ key: String,
        from cursor: inout String
    ) async throws(RedisError) -> [(name: String, value: String)] {
        let reply = try await queue.redis.send([
            .string(command), .string(key), .string(cursor), "COUNT", .int(Self.pageSize),
        ])
        guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
            throw JobQueue.unexpected(command)
        }
        cursor = next
        // Names and values, or members and scores, alternately.
        let fields = parts[1].array ?? []
        return stride(from: 0, to: fields.count - 1, by: 2).compactMap { index in
            fields[index].string.map { ($0, fields[index + 1].string ?? "") }
        }
    }

    /// Whether a meta has the form `attempt|stalls|worker|priority@digest|batch`. One that cannot be read counts as
    /// missing.
    private static func isReadable(_ meta: String) -> Bool {
        let fields = meta.split(separator: "|", maxSplits: 4, omittingEmptySubsequences: false)
        return fields.count == 5 && ["1", "2", "3"].contains(fields[3].prefix { $0 != "@" })
    }

    private func readBodies(into sightings: inout Sightings) async throws(RedisError) {
        var cursor = "0"
        repeat {
            let reply = try await queue.redis.run(
                QueueScripts.auditBodies,
                keys: [queue.keys.body],
                arguments: [.string(cursor), .int(Self.bodiesOfPage)]
            )
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
                throw JobQueue.unexpected("auditBodies")
            }
            cursor = next
            for id in (parts[1].array ?? []).compactMap(\.string) { sightings.record(id, in: .body) }
        } while cursor != "0"
    }

    private func readReady(_ key: String, limit: Int, into sightings: inout Sightings) async throws(RedisError) {
        for start in stride(from: 0, to: limit, by: Self.pageSize) {
            let reply = try await queue.redis.send([
                "LRANGE", .string(key), .int(start), .int(start + Self.pageSize - 1),
            ])
            let ids = (reply.array ?? []).compactMap(\.string)
            for id in ids { sightings.record(id, in: .ready) }
            if ids.count < Self.pageSize { return }
        }
    }
}
