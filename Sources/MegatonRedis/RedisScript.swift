internal import Crypto
internal import MegatonCore

/// A Lua script that the server knows by its digest.
///
/// The contract of each script (KEYS, ARGV, return value, pre- and postconditions) is at the top of its source.
package struct RedisScript: Sendable {
    /// Name in messages and logs.
    package let name: String
    /// The source, sent if the server does not know the digest.
    package let source: String
    /// SHA-1 in hex, as EVALSHA requires.
    package let digest: String

    /// - Parameter name: name in messages and logs.
    package init(name: String, source: String) {
        self.name = name
        self.source = source
        digest = Insecure.SHA1.hash(data: Array(source.utf8)).hexDigits
    }

    /// A script that is embedded in the program as a `.lua` file.
    ///
    /// - Parameters:
    ///   - name: name in messages and logs.
    ///   - file: content of the file. Its first line begins with `#!lua` and has the script's flags.
    ///   - prelude: functions that several scripts share, of which the script gets those that it uses.
    package init(name: String, file: [UInt8], prelude: LuaPrelude? = nil) {
        let body = file.firstIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? file.endIndex
        let code = String(decoding: file[body...], as: UTF8.self)
        let flags = String(decoding: file[..<body], as: UTF8.self)
        self.init(name: name, source: flags + (prelude?.completed(code) ?? code))
    }

    /// Returns the EVALSHA command for one call.
    package func call(keys: [String], arguments: [RedisArgument]) -> RedisCommand {
        RedisCommand(["EVALSHA", .string(digest), .int(keys.count)] + keys.map { .string($0) } + arguments)
    }
}

extension RedisClient {
    /// Runs a script in one round trip, or in several if the server no longer has it (restart, failover, SCRIPT FLUSH).
    ///
    /// Repeating a call after NOSCRIPT is safe, because nothing was executed.
    @discardableResult
    package func run(
        _ script: RedisScript,
        keys: [String],
        arguments: [RedisArgument],
        timeout: Duration? = nil
    ) async throws(RedisError) -> RedisValue {
        let replies = try await run(script, calls: [(keys, arguments)], timeout: timeout)
        if case .error(let text) = replies[0] { throw RedisError(reply: text) }
        return replies[0]
    }

    /// Runs a script several times in one round trip. An error reply is returned as `.error` at the position of its
    /// call.
    package func run(
        _ script: RedisScript,
        calls: [(keys: [String], arguments: [RedisArgument])],
        timeout: Duration? = nil
    ) async throws(RedisError) -> [RedisValue] {
        try await run(script, after: [], calls: calls, timeout: timeout).calls
    }

    /// Sends commands followed by calls of a script, in one round trip. An error reply is returned as `.error` at its
    /// position and does not stop the commands after it.
    package func run(
        _ script: RedisScript,
        after commands: [RedisCommand],
        calls: [(keys: [String], arguments: [RedisArgument])],
        timeout: Duration? = nil
    ) async throws(RedisError) -> (commands: [RedisValue], calls: [RedisValue]) {
        let all = try await execute(
            commands + calls.map { script.call(keys: $0.keys, arguments: $0.arguments) },
            script: script,
            timeout: timeout
        )
        guard all.count == commands.count + calls.count else {
            throw RedisError(
                .unexpectedReply,
                "Redis replied to \(all.count) of \(commands.count + calls.count) commands."
            )
        }
        return (Array(all.prefix(commands.count)), Array(all.dropFirst(commands.count)))
    }
}
