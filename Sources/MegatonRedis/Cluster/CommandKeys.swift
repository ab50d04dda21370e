import NIOCore

/// The keys of a command, which decide the node that runs it.
///
/// The table has the commands of Redis that are not "name, key, …". A command that is not in it counts as such.
enum CommandKeys {
    private enum Position {
        /// No key: any node may run the command.
        case none
        /// One key, at this index.
        case at(Int)
        /// All arguments from this index.
        case from(Int)
        /// All arguments except the name and the last.
        case allButLast
        /// The two arguments behind the name.
        case firstTwo
        /// Each second argument, from the one behind the name.
        case pairs
        /// Their number is at this index, and they follow it.
        case counted(Int)
        /// The first argument, and those of `counted(2)`.
        case destinationAndCounted
        /// The first half of the arguments behind the word STREAMS.
        case streams
    }

    private static let positions: [String: Position] = {
        var positions: [String: Position] = [:]
        func add(_ position: Position, _ names: String) {
            for name in names.split(separator: " ") { positions[String(name)] = position }
        }
        add(
            .none,
            "ACL ASKING AUTH BGREWRITEAOF BGSAVE CLIENT CLUSTER COMMAND CONFIG DBSIZE DEBUG DISCARD ECHO EXEC FAILOVER "
                + "FLUSHALL FLUSHDB FUNCTION HELLO INFO KEYS LASTSAVE LATENCY MODULE MONITOR MULTI PING PUBLISH PUBSUB "
                + "RANDOMKEY REPLICAOF ROLE SAVE SCAN SCRIPT SELECT SHUTDOWN SLOWLOG SUBSCRIBE SWAPDB TIME UNSUBSCRIBE "
                + "UNWATCH WAIT WAITAOF"
        )
        add(.at(2), "MEMORY OBJECT XGROUP XINFO")
        add(.from(1), "DEL EXISTS MGET PFCOUNT PFMERGE SDIFF SDIFFSTORE SINTER SINTERSTORE SUNION SUNIONSTORE TOUCH")
        add(.from(1), "UNLINK WATCH")
        add(.from(2), "BITOP")
        add(.allButLast, "BLPOP BRPOP BZPOPMAX BZPOPMIN")
        add(.firstTwo, "BLMOVE BRPOPLPUSH COPY GEOSEARCHSTORE LCS LMOVE RENAME RENAMENX RPOPLPUSH SMOVE ZRANGESTORE")
        add(.pairs, "MSET MSETNX")
        add(.counted(1), "LMPOP SINTERCARD ZDIFF ZINTER ZINTERCARD ZMPOP ZUNION")
        add(.counted(2), "BLMPOP BZMPOP EVAL EVALSHA EVALSHA_RO EVAL_RO FCALL FCALL_RO")
        add(.destinationAndCounted, "ZDIFFSTORE ZINTERSTORE ZUNIONSTORE")
        add(.streams, "XREAD XREADGROUP")
        return positions
    }()

    /// Names of commands that may wait on the server.
    private static let blocking = Set(
        "BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN".split(separator: " ").map(String.init)
    )

    static func name(of command: RedisCommand) -> String {
        command.arguments.first.map(text)?.uppercased() ?? ""
    }

    static func isBlocking(_ command: RedisCommand) -> Bool { blocking.contains(name(of: command)) }

    /// The keys of a command, in its order.
    static func keys(of command: RedisCommand) -> ArraySlice<RedisArgument> {
        let arguments = command.arguments
        func slice(_ range: Range<Int>) -> ArraySlice<RedisArgument> { arguments[range.clamped(to: arguments.indices)] }
        func counted(_ index: Int) -> ArraySlice<RedisArgument> {
            let count = index < arguments.count ? Int(text(arguments[index])) ?? 0 : 0
            return slice(index + 1..<index + 1 + max(0, min(count, arguments.count)))
        }
        switch positions[name(of: command)] ?? .at(1) {
        case .none: return []
        case .at(let index): return slice(index..<index + 1)
        case .from(let index): return slice(index..<max(index, arguments.count))
        case .allButLast: return slice(1..<max(1, arguments.count - 1))
        case .firstTwo: return slice(1..<3)
        case .pairs: return stride(from: 1, to: arguments.count, by: 2).map { arguments[$0] }[...]
        case .counted(let index): return counted(index)
        case .destinationAndCounted: return slice(1..<2) + counted(2)
        case .streams:
            guard let word = arguments.firstIndex(where: { text($0).uppercased() == "STREAMS" }) else { return [] }
            let rest = arguments.count - word - 1
            return slice(word + 1..<word + 1 + rest / 2)
        }
    }

    /// The slot that all keys of a command share; nil if it has no keys.
    ///
    /// - Throws: `.crossSlot` if the keys are in different slots, which no node accepts.
    static func slot(of command: RedisCommand) throws(RedisError) -> Int? {
        let keys = keys(of: command)
        guard let first = keys.first else { return nil }
        let slot = HashSlot.of(first)
        for key in keys.dropFirst() { try check(key, against: first, slot, name(of: command)) }
        return slot
    }

    /// - Throws: `.crossSlot` with both keys, unless the key is in the slot.
    static func check(
        _ key: RedisArgument,
        against first: RedisArgument,
        _ slot: Int,
        _ name: String
    ) throws(RedisError) {
        let other = HashSlot.of(key)
        if other == slot { return }
        throw RedisError(
            .crossSlot,
            "\(name) uses the keys \"\(text(first))\" (slot \(slot)) and \"\(text(key))\" (slot \(other)), which may "
                + "be on different nodes of the Redis Cluster. Keys of one call need the same hash tag in braces."
        )
    }

    static func text(_ argument: RedisArgument) -> String {
        switch argument {
        case .string(let text): text
        case .buffer(let buffer): String(buffer: buffer)
        }
    }
}
