internal import Crypto

/// A Lua script that is known to the server by its digest.
///
/// The contract of each script (KEYS, ARGV, returns, what holds before and after) stands above its text.
public struct RedisScript: Sendable {
    /// For messages and logs.
    public let name: String
    /// The text that is sent when the server does not know the digest.
    public let source: String
    /// SHA-1 in hex, which is what EVALSHA asks for.
    public let digest: String

    /// A script with the name it has in messages.
    public init(name: String, source: String) {
        self.name = name
        self.source = source
        digest = Insecure.SHA1.hash(data: Array(source.utf8)).map { byte in
            (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
    }

    /// The command for one call.
    public func call(keys: [String], arguments: [RedisArgument]) -> RedisCommand {
        RedisCommand(["EVALSHA", .string(digest), .int(keys.count)] + keys.map { .string($0) } + arguments)
    }
}

extension RedisClient {
    /// Runs a script in one round trip; two where the server has forgotten it (restart, failover, SCRIPT FLUSH).
    ///
    /// Repeating after NOSCRIPT is safe: nothing was executed.
    @discardableResult
    public func run(
        _ script: RedisScript,
        keys: [String],
        arguments: [RedisArgument],
        timeout: Duration? = nil
    ) async throws(RedisError) -> RedisValue {
        let replies = try await run(script, calls: [(keys, arguments)], timeout: timeout)
        if case .error(let text) = replies[0] { throw RedisError(reply: text) }
        return replies[0]
    }

    /// Runs a script several times in one round trip. Error replies come back as `.error` in their place.
    public func run(
        _ script: RedisScript,
        calls: [(keys: [String], arguments: [RedisArgument])],
        timeout: Duration? = nil
    ) async throws(RedisError) -> [RedisValue] {
        try await run(script, after: [], calls: calls, timeout: timeout).calls
    }

    /// Sends commands and runs a script behind them, in one round trip. Error replies come back as `.error` in their place,
    /// and keep nothing that follows from being done.
    public func run(
        _ script: RedisScript,
        after commands: [RedisCommand],
        calls: [(keys: [String], arguments: [RedisArgument])],
        timeout: Duration? = nil
    ) async throws(RedisError) -> (commands: [RedisValue], calls: [RedisValue]) {
        let all = try await pipeline(
            commands + calls.map { script.call(keys: $0.keys, arguments: $0.arguments) },
            timeout: timeout
        )
        guard all.count == commands.count + calls.count else {
            throw RedisError(.unexpectedReply, "Redis answered \(all.count) of \(commands.count + calls.count) calls.")
        }
        let first = Array(all.prefix(commands.count))
        var replies = Array(all.dropFirst(commands.count))
        let unknown = replies.indices.filter { index in
            if case .error(let text) = replies[index] { text.hasPrefix("NOSCRIPT") } else { false }
        }
        if unknown.isEmpty { return (first, replies) }
        try await send(["SCRIPT", "LOAD", .string(script.source)], timeout: timeout)
        let again = try await pipeline(
            unknown.map { script.call(keys: calls[$0].keys, arguments: calls[$0].arguments) },
            timeout: timeout
        )
        for (index, reply) in zip(unknown, again) { replies[index] = reply }
        return (first, replies)
    }
}
