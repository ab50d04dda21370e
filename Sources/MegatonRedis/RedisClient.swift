package import Logging
package import NIOCore
import Synchronization

/// Runs commands: on one server, or on the nodes of a cluster.
protocol RedisExecuting: Sendable {
    /// Connects now, or retries for a while; see ``RedisClient/connect(waiting:)``.
    func connect(waiting limit: Duration) async throws(RedisError)

    /// Sends commands and returns their replies in order, error replies as `.error`.
    ///
    /// - Parameters:
    ///   - commands: at least one.
    ///   - script: loaded if a command fails because the server does not know it; that command is then repeated, which
    ///     is safe, because nothing was executed.
    ///   - timeout: includes the wait for connections.
    func execute(
        _ commands: [RedisCommand],
        script: RedisScript?,
        timeout: Duration
    ) async throws(RedisError) -> [RedisValue]

    /// Sends a command that only reads to the server, or to each master of a cluster, where it may be repeated.
    ///
    /// - Returns: the replies with the names of the nodes; nil for the only server.
    func executeOnMasters(
        _ command: RedisCommand,
        timeout: Duration
    ) async throws(RedisError) -> [(node: String?, reply: RedisValue)]

    /// From now on, no command waits for an unreachable server.
    func failFast()

    /// Closes all connections for good.
    func close()
}

/// A client of one Redis, or of a Redis Cluster. Many tasks share it, and their commands are pipelined; connections are
/// opened on demand and reopened after a failure.
///
/// No command is executed twice: if a connection fails before the reply, the command fails with `.connectionClosed` or
/// `.timeout`, and its caller decides whether it may be repeated. Nodes of a cluster that redirect a command have not
/// executed it.
package final class RedisClient: Sendable {
    package let configuration: RedisConfiguration
    private let executor: any RedisExecuting
    private let metrics: RedisMetrics

    /// - Parameters:
    ///   - role: purpose of the connection: `control`, `lease`, `wake` or `cache`. Shown by CLIENT LIST.
    ///   - group: event loops of the connections. The lease heartbeat has a group of its own.
    ///   - waitsForReconnect: whether a command waits, within its timeout, for a Redis that is unreachable. If false,
    ///     commands fail at once after the first failure while the client reconnects in the background; use this for
    ///     optional work.
    package init(
        _ configuration: RedisConfiguration,
        role: String,
        group: any EventLoopGroup,
        logger: Logger,
        waitsForReconnect: Bool = true
    ) {
        self.configuration = configuration
        metrics = RedisMetrics(role: role)
        var logger = logger
        logger[metadataKey: "redis.role"] = "\(role)"
        let name = "megaton:\(role)"
        switch configuration.address {
        case .tcp, .unix, .sentinel:
            executor = RedisServerClient(
                configuration,
                name: name,
                group: group,
                logger: logger,
                waitsForReconnect: waitsForReconnect
            )
        case .cluster:
            executor = ClusterRouter(
                configuration,
                name: name,
                group: group,
                logger: logger,
                waitsForReconnect: waitsForReconnect
            )
        }
    }

    /// Connects now, or retries for a while if Redis is unreachable or still loading.
    ///
    /// - Parameter limit: how long to retry; zero makes one attempt. A cancelled task makes no further attempt.
    /// - Throws: the last attempt's error; permanent errors, such as a wrong password, are thrown at once.
    package func connect(waiting limit: Duration = .zero) async throws(RedisError) {
        try await executor.connect(waiting: limit)
    }

    /// Sends one command.
    ///
    /// - Parameter timeout: `configuration.commandTimeout` if nil. A blocking command needs a longer one: the
    ///   server-side timeout plus 2 s.
    /// - Throws: also if the reply is an error.
    @discardableResult
    package func send(_ command: RedisCommand, timeout: Duration? = nil) async throws(RedisError) -> RedisValue {
        let replies = try await pipeline([command], timeout: timeout)
        guard let reply = replies.first else {
            throw RedisError(.unexpectedReply, "Redis did not reply to a command.")
        }
        if case .error(let text) = reply { throw RedisError(reply: text) }
        return reply
    }

    /// Sends several commands in one round trip. An error reply is returned as `.error` at the position of its command.
    ///
    /// In a cluster there is one round trip to each node concerned, at the same time. If one of them fails, the call
    /// throws, and the commands on the others have been executed.
    ///
    /// The order of execution is not that of the commands in two cases: commands of different slots in a cluster have
    /// no order at all, and a command that is sent again (while its slot is migrated, or because the server did not
    /// know its script) is executed after the others. Commands that need an order are one script, or a transaction from
    /// MULTI to EXEC.
    package func pipeline(
        _ commands: [RedisCommand],
        timeout: Duration? = nil
    ) async throws(RedisError) -> [RedisValue] {
        try await execute(commands, script: nil, timeout: timeout)
    }

    /// Sends a command that only reads to the server, or to each master of a cluster: for settings and figures of
    /// servers. In a cluster it may be repeated.
    ///
    /// - Returns: the replies with the addresses of the nodes; nil for the only server.
    /// - Throws: also if one of the replies is an error.
    package func sendToMasters(
        _ command: RedisCommand
    ) async throws(RedisError) -> [(node: String?, reply: RedisValue)] {
        let replies = try await executor.executeOnMasters(command, timeout: configuration.commandTimeout)
        for case (_, .error(let text)) in replies { throw RedisError(reply: text) }
        return replies
    }

    /// Sends commands, and loads a script on each server that does not know it.
    func execute(
        _ commands: [RedisCommand],
        script: RedisScript?,
        timeout: Duration?
    ) async throws(RedisError) -> [RedisValue] {
        if commands.isEmpty { return [] }
        metrics.count(commands.count)
        do throws(RedisError) {
            return try await executor.execute(
                commands,
                script: script,
                timeout: timeout ?? configuration.commandTimeout
            )
        } catch {
            metrics.count(error)
            throw error
        }
    }

    /// Makes the client fail fast: from now on no command waits for an unreachable Redis, as with
    /// `waitsForReconnect: false`. A command that waits between two attempts fails at once; one that waits for a
    /// running attempt fails when that ends.
    ///
    /// Used at the shutdown of a process, which should not wait for Redis any longer.
    package func failFast() { executor.failFast() }

    /// Closes the connections. Commands in flight fail, later ones throw `.closed`.
    package func close() { executor.close() }
}

#if MEGATON_SANITIZE
    @_exported public import MegatonCore

    // As `Synchronization.Mutex`, for sanitizers; exported so that all files of this module see its members.
    typealias Mutex = MegatonCore.Mutex
#endif
