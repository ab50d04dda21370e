package import Logging
package import NIOCore
import Synchronization

/// A connection to Redis that is opened on demand and reopened after a failure. Many tasks share it, and their commands
/// are pipelined.
///
/// No command is sent twice: if the connection fails before the reply, the command fails with `.connectionClosed` or
/// `.timeout`, and its caller decides whether it may be repeated.
package final class RedisClient: Sendable {
    private enum State {
        case idle
        case connecting(Task<Void, Never>, EventLoopFuture<RedisConnection>)
        case connected(RedisConnection)
        case closed
    }

    private struct Shared {
        var state: State = .idle
        var backoff = Backoff()
        /// The error of the last connection attempt; nil if it succeeded.
        var failure: (any Error)?
        var waitsForReconnect: Bool
        var failsFast = false
    }

    package let configuration: RedisConfiguration
    private let connector: RedisConnector
    private let group: any EventLoopGroup
    private let logger: Logger
    private let shared: Mutex<Shared>

    /// - Parameters:
    ///   - role: purpose of the connection: `control`, `lease`, `wake` or `cache`. Shown by CLIENT LIST.
    ///   - group: event loops of the connection. The lease heartbeat has a group of its own.
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
        shared = Mutex(Shared(waitsForReconnect: waitsForReconnect))
        self.configuration = configuration
        connector = RedisConnector(configuration, name: "megaton:\(role)", group: group)
        self.group = group
        var logger = logger
        logger[metadataKey: "redis.role"] = "\(role)"
        self.logger = logger
    }

    /// Connects now, or retries for a while if Redis is unreachable or still loading.
    ///
    /// - Parameter limit: how long to retry; zero makes one attempt. A cancelled task makes no further attempt.
    /// - Throws: the last attempt's error; permanent errors, such as a wrong password, are thrown at once.
    package func connect(waiting limit: Duration = .zero) async throws(RedisError) {
        let deadline = ContinuousClock.now + limit
        while true {
            do throws(RedisError) {
                _ = try await attempt().connection(before: nil)
                return
            } catch {
                guard error.isTransient, !Task.isCancelled, ContinuousClock.now < deadline else { throw error }
            }
        }
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
    package func pipeline(
        _ commands: [RedisCommand],
        timeout: Duration? = nil
    ) async throws(RedisError) -> [RedisValue] {
        if commands.isEmpty { return [] }
        let deadline = NIODeadline.now() + TimeAmount(timeout ?? configuration.commandTimeout)
        let connection = try await connection(before: deadline)
        guard NIODeadline.now() < deadline else {
            throw RedisError(.unreachable, "Connecting to Redis took too long; the command was not sent.")
        }
        let replies: [RedisValue]
        do throws(RedisError) {
            replies = try await connection.send(commands, deadline: deadline)
        } catch {
            drop(connection, after: error)
            throw error
        }
        // A replica took the server's place, or the master was demoted. The next command must resolve the name again.
        for case .error(let text) in replies {
            let error = RedisError(reply: text)
            if error.endsConnection { drop(connection, after: error) }
        }
        return replies
    }

    /// Makes the client fail fast: from now on no command waits for an unreachable Redis, as with
    /// `waitsForReconnect: false`. A command that waits between two attempts fails at once; one that waits for a
    /// running attempt fails when that ends.
    ///
    /// Used at the shutdown of a process, which should not wait for Redis any longer.
    package func failFast() {
        let attempt = shared.withLock { shared -> Task<Void, Never>? in
            shared.waitsForReconnect = false
            shared.failsFast = true
            // An attempt that follows no failure may succeed.
            guard shared.failure != nil, case .connecting(let task, _) = shared.state else { return nil }
            return task
        }
        attempt?.cancel()
    }

    /// Closes the connection. Commands in flight fail, later ones throw `.closed`.
    package func close() {
        let connection: RedisConnection? = shared.withLock { shared in
            defer { shared.state = .closed }
            switch shared.state {
            case .connected(let connection): return connection
            case .connecting(let task, _):
                task.cancel()
                return nil
            case .idle, .closed: return nil
            }
        }
        connection?.close()
    }

    // MARK: - The connection

    private enum Attempt {
        /// The deadline passed before the attempt ended.
        static let late = RedisError(.unreachable, "Connecting to Redis took too long; the command was not sent.")

        case ready(RedisConnection)
        case running(EventLoopFuture<RedisConnection>)

        /// - Parameter deadline: limits the wait, not the attempt, which other callers share.
        func connection(before deadline: NIODeadline?) async throws(RedisError) -> RedisConnection {
            switch self {
            case .ready(let connection): return connection
            case .running(let future):
                let promise = future.eventLoop.makePromise(of: RedisConnection.self)
                future.cascade(to: promise)
                let timer = deadline.map { deadline in
                    future.eventLoop.scheduleTask(deadline: deadline) { promise.fail(Self.late) }
                }
                defer { timer?.cancel() }
                do {
                    return try await promise.futureResult.get()
                } catch let error as RedisError {
                    throw error
                } catch {
                    throw RedisError(.closed, "The Redis client was closed.")
                }
            }
        }
    }

    /// Retries with growing delays until the deadline, because a failover, a restart (`.busy`) and a replica that is
    /// about to become the master (`.notWritable`) are temporary. Nothing has been sent yet, so retrying is safe for
    /// any command.
    private func connection(before deadline: NIODeadline) async throws(RedisError) -> RedisConnection {
        var cause: RedisError?
        while true {
            do throws(RedisError) {
                let attempt = try attempt()
                if case .running = attempt, shared.withLock({ !$0.waitsForReconnect && $0.failure != nil }) {
                    throw RedisError(.unreachable, "Redis was unreachable a moment ago; the client is reconnecting.")
                }
                return try await attempt.connection(before: deadline)
            } catch {
                let isHopeless = [.closed, .authentication, .invalidConfiguration].contains(error.code)
                if isHopeless || !shared.withLock({ $0.waitsForReconnect }) || NIODeadline.now() >= deadline
                    || Task.isCancelled
                {
                    throw error == Attempt.late ? cause ?? error : error
                }
                cause = error
            }
        }
    }

    /// Returns the present connection, or the single attempt that all callers share.
    private func attempt() throws(RedisError) -> Attempt {
        let attempt: Attempt? = shared.withLock { shared in
            switch shared.state {
            case .connected(let connection) where connection.isActive:
                return .ready(connection)
            case .connecting(_, let connection):
                return .running(connection)
            case .closed:
                return nil
            case .idle, .connected:
                // A busy server says so in its greeting, and is asked again sooner.
                let delay: Duration = shared.failure.map { shared.backoff.next(after: $0) } ?? .zero
                // Unstructured because several callers wait for the task and none owns it. It is bounded by the delay
                // and the connect timeout, and cancelled by `close`.
                let promise = group.next().makePromise(of: RedisConnection.self)
                let task = promise.completeWithTask { try await self.connectOnce(after: delay) }
                shared.state = .connecting(task, promise.futureResult)
                return .running(promise.futureResult)
            }
        }
        guard let attempt else { throw RedisError(.closed, "The Redis client was closed.") }
        return attempt
    }

    private func connectOnce(after delay: Duration) async throws -> RedisConnection {
        do {
            if delay > .zero {
                logger.debug(
                    "reconnecting to Redis",
                    metadata: ["delay.ms": "\(TimeAmount(delay).nanoseconds / 1_000_000)"]
                )
                try await Task.sleep(for: delay)
            }
            let connection = try await connector.connect()
            let (isWanted, wasLost) = shared.withLock { shared in
                guard case .connecting = shared.state else { return (false, false) }
                defer { shared.failure = nil }
                shared.state = .connected(connection)
                shared.backoff.reset()
                return (true, shared.failure != nil)
            }
            guard isWanted else {
                connection.close()
                throw RedisError(.closed, "The Redis client was closed.")
            }
            if wasLost { logger.notice("Redis is reachable again") }
            return connection
        } catch {
            let isFirst = shared.withLock { shared in
                if case .connecting = shared.state { shared.state = .idle }
                defer { shared.failure = error }
                return shared.failure == nil
            }
            let isClosed = shared.withLock { if case .closed = $0.state { true } else { false } }
            if isClosed { throw error }
            // Cancelled by `failFast`: waiting callers may retry.
            if error is CancellationError {
                throw RedisError(.unreachable, "Redis is unreachable, and this client no longer waits for it.")
            }
            if isFirst { logger.warning("cannot reach Redis", metadata: ["error": "\(error)"]) }
            throw error
        }
    }

    private func drop(_ connection: RedisConnection, after error: RedisError) {
        connection.close()
        shared.withLock { shared in
            // A late error of an old connection does not concern its replacement.
            guard case .connected(let current) = shared.state, current === connection else { return }
            shared.state = .idle
            // A server that hangs counts as unreachable, too.
            if shared.failsFast { shared.failure = error }
        }
    }
}

#if MEGATON_SANITIZE
    @_exported public import MegatonCore

    // As `Synchronization.Mutex`, for sanitizers; exported so that all files of this module see its members.
    typealias Mutex = MegatonCore.Mutex
#endif
