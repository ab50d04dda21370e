package import MegatonRedis

/// Which shards a queue has.
///
/// Each shard has a copy in Redis. That of shard 0 decides; the others show that their servers are those of the queue.
package struct ShardLayout: Sendable, Equatable {
    /// Number of shards.
    package var count = 1
    /// Differs between any two layouts of a queue, and ends with the number of its servers: `<random>.<servers>`.
    var id = undivided
    /// The layout that a change which has begun leads to; nil if there is none.
    var target: Target?

    /// The id of a queue that was never divided.
    static let undivided = "-"
    /// Whether the queue has copies of this layout.
    var isStored: Bool { id != Self.undivided }
    /// Number of servers that the shards are on: shard k is on the server k modulo this number. Nil if unknown.
    var servers: Int? {
        let words = id.split(separator: ".")
        return words.count == 2 ? Int(words[1]).flatMap { (1...count).contains($0) ? $0 : nil } : nil
    }

    /// A new id for a layout on this number of servers.
    static func makeID(servers: Int) -> String {
        "\(String(UInt64.random(in: .min ... .max), radix: 16)).\(servers)"
    }

    /// The first of some shards that is not on its server if this number of servers is named; nil if there is none, or
    /// if it is unknown how many there were.
    func misplaced(in shards: Range<Int>, servers: Int) -> Int? {
        guard let had = self.servers else { return nil }
        return shards.first { $0 % had != $0 % servers }
    }

    /// "3 shards on 2 servers", as far as known.
    var summary: String {
        let shards = Self.shards(count)
        return servers.map { "\(shards) on \($0 == 1 ? "one server" : "\($0) servers")" } ?? shards
    }

    static func shards(_ count: Int) -> String { count == 1 ? "one shard" : "\(count) shards" }

    /// "and 2 are named", for messages.
    static func named(_ servers: Int) -> String { "and \(servers == 1 ? "one is" : "\(servers) are") named" }

    static let namingRemedy =
        "Name the servers of the queue as its other processes do, all of them and in the same order: --redis URL "
        + "--redis URL, or MEGATON_REDIS with spaces in between."

    /// The layout after a change.
    struct Target: Sendable, Equatable {
        var count: Int
        var id: String
    }

    /// The layout of a queue with one shard.
    package init() {}

    init(count: Int, id: String = undivided, target: Target? = nil) {
        (self.count, self.id, self.target) = (count, id, target)
    }

    /// Numbers of shards that a queue may have. A worker has four connections for each.
    package static let counts = 1...128

    /// Factor of the intervals at which an idle worker looks at each of several shards, so that all together cost it
    /// little more than one.
    static func idleFactor(of count: Int) -> Int { min(max(count, 1), maximumIdleFactor) }

    private static let maximumIdleFactor = 5

    /// The copy of a shard: `<shard>/<count> <id>`, and count and id of the target if there is one.
    func text(of shard: Int) -> String {
        "\(shard)/\(count) \(id)" + (target.map { " \($0.count) \($0.id)" } ?? "")
    }

    /// Reads the copy of a shard. Nil if it has another form.
    static func parse(_ text: String) -> (shard: Int, layout: ShardLayout)? {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 2 || words.count == 4, words.allSatisfy({ !$0.isEmpty }) else { return nil }
        let numbers = words[0].split(separator: "/", omittingEmptySubsequences: false).map { Int($0) }
        guard numbers.count == 2, let shard = numbers[0], let count = numbers[1], counts.contains(count),
            (0..<count).contains(shard)
        else { return nil }
        var layout = ShardLayout(count: count, id: String(words[1]))
        if words.count == 4 {
            guard let target = Int(words[2]), counts.contains(target) else { return nil }
            layout.target = Target(count: target, id: String(words[3]))
        }
        return (shard, layout)
    }

    /// The shard of a text, such as the digest of a source: always the same one for the same number of shards.
    package func shard(of text: String) -> Int { count == 1 ? 0 : Int(Self.hash(text) % UInt64(count)) }

    /// FNV-1a with 64 bits (G. Fowler, L. Noll and K.-P. Vo), and the finalizer of MurmurHash3, as the low bits of FNV
    /// alone are not spread well.
    static func hash(_ text: String) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
        hash = (hash ^ (hash >> 33)) &* 0xff51_afd7_ed55_8ccd
        hash = (hash ^ (hash >> 33)) &* 0xc4ce_b9fe_1a85_ec53
        return hash ^ (hash >> 33)
    }
}

// MARK: - In Redis

extension ShardLayout {
    /// Reads the layout of a queue from shard 0.
    ///
    /// - Parameters:
    ///   - next: shard 1, which has a copy if shard 0 has lost its own.
    ///   - servers: number of servers that were named.
    /// - Throws: `.shardMismatch` if the queue cannot be used, with the remedy.
    static func read(
        from first: JobQueue,
        next: JobQueue,
        servers: Int
    ) async throws(RedisError) -> ShardLayout {
        let name = first.keys.queue
        guard let text = try await first.layout() else {
            if let lost = try await lost(next, needsAnswer: servers > 1) {
                throw lost.withoutFirst(at: first, servers: servers)
            }
            return ShardLayout()
        }
        guard let (shard, layout) = parse(text) else {
            throw RedisError(
                .shardMismatch,
                "The key \(first.keys.layout) has an unknown form: \"\(text.prefix(64))\". A later version of Megaton "
                    + "may have written it; install the version of the other processes here."
            )
        }
        guard shard == 0 else {
            throw RedisError(
                .shardMismatch,
                "The Redis \(first.redis.configuration) has shard \(shard) of the queue \"\(name)\", not shard 0, or "
                    + "the name is that of a shard. Name the queue as its other processes do, and its servers in the "
                    + "same order."
            )
        }
        if let target = layout.target {
            throw RedisError(
                .shardMismatch,
                "The queue \"\(name)\" is being changed from \(layout.count) to \(target.count) shards. If the command "
                    + "has ended, megaton queue reshard \(target.count) finishes the change, and megaton queue reshard "
                    + "\(layout.count) undoes it."
            )
        }
        return layout
    }

    /// The error of a queue whose shard 0 has no copy of this layout.
    ///
    /// - Parameter servers: number of servers that were named.
    func withoutFirst(at first: JobQueue, servers: Int) -> RedisError {
        let isPlaced = misplaced(in: 0..<count, servers: servers) == nil
        // With another number of servers, one of them is missing from the command, or was added to it.
        let loss =
            isPlaced
            ? " Only if it has lost its data, megaton queue reshard \(count) --accept-loss uses the others again." : ""
        return RedisError(
            .shardMismatch,
            "The Redis \(first.redis.configuration) is not the first one of the queue \"\(first.keys.queue)\", or has "
                + "lost the layout of it and probably its other data: shard 1 says that there were \(summary)"
                + "\(isPlaced ? "" : ", \(Self.named(servers))"). \(Self.namingRemedy)\(loss)"
        )
    }

    /// The layout of which shard 1 has a copy, for a queue whose shard 0 has none.
    ///
    /// - Parameter needsAnswer: whether shard 1 must answer. On another master of a Redis Cluster it must not keep a
    ///   queue from working that was never divided.
    /// - Returns: nil if it has none, as for a queue that was never divided.
    static func lost(_ next: JobQueue, needsAnswer: Bool) async throws(RedisError) -> ShardLayout? {
        do throws(RedisError) {
            // Another number is that of a queue with the name of a shard.
            guard let text = try await next.layout(), let (shard, layout) = parse(text), shard == 1 else { return nil }
            return layout
        } catch {
            // This user may not be allowed to ask.
            guard error.code == .authentication || !needsAnswer && error.isTransient else { throw error }
            return nil
        }
    }

    /// Checks that a server that was not named first does not have shard 0.
    ///
    /// - Parameter first: shard 0, on that server.
    static func requireNone(at first: JobQueue) async throws(RedisError) {
        guard try await first.layout() != nil else { return }
        throw RedisError(
            .shardMismatch,
            "Shard 0 of the queue \"\(first.keys.queue)\" is on \(first.redis.configuration): name it first, and the "
                + "others as the processes of the queue do."
        )
    }

    /// Checks that a shard belongs to this layout.
    ///
    /// - Parameter servers: number of servers that were named.
    /// - Throws: `.shardMismatch` with the remedy.
    func check(_ queue: JobQueue, servers: Int) async throws(RedisError) {
        let (shard, expected) = (queue.keys.shard, text(of: queue.keys.shard))
        let text = try await queue.layout()
        if text == expected { return }
        let found = text.flatMap(Self.parse)
        var state = "has nothing of it"
        // The command looks for the shard at all servers that are named before it gives anything up.
        var remedy =
            " Only if this server has lost its data, megaton queue reshard \(count) --accept-loss uses it again."
        if let found, found.layout.id == id {
            (state, remedy) = ("has shard \(found.shard) of the queue \"\(queue.keys.queue)\"", "")
        } else if let found {
            state = "has a shard of another queue, or of this one with \(found.layout.summary)"
            // A server has returned to an earlier state, or has its copy from a process that did not know the change.
            let most = max(count, found.layout.count)
            remedy = " If they are named so, megaton queue reshard \(most) makes the copies the same again."
        }
        throw RedisError(
            .shardMismatch,
            "Shard \(shard) of \(count) of the queue \"\(queue.keys.queue)\" should be on "
                + "\(queue.redis.configuration), which \(state), \(Self.named(servers)). \(Self.namingRemedy)\(remedy)"
        )
    }
}

extension JobQueue {
    /// This shard's copy of the layout; nil if there is none.
    package func layout() async throws(RedisError) -> String? {
        try await redis.send(["GET", .string(keys.layout)]).string
    }

    /// Replaces this shard's copy of the layout; see the script `changeLayout`.
    ///
    /// - Returns: whether it is the new one now; false if it was not the expected one.
    func changeLayout(from expected: String?, to new: String?) async throws(RedisError) -> Bool {
        try await redis.run(
            QueueScripts.changeLayout,
            keys: [keys.layout],
            arguments: [.string(expected ?? ""), .string(new ?? "")]
        ).int == 1
    }

    /// Writes the copy of a shard that has lost it.
    ///
    /// - Returns: the copy that it has now.
    func restoreLayout(_ layout: ShardLayout) async throws(RedisError) -> String? {
        try await redis.run(
            QueueScripts.joinProtocol,
            keys: [keys.layout],
            arguments: [.string(layout.text(of: keys.shard))]
        ).string
    }
}
