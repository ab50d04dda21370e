import Logging
import NIOCore
import Synchronization

/// The connection of a `RedisClient` to one server: opened on demand, and reopened after a failure. Many tasks share
/// it, and their commands are pipelined.
final class RedisServerClient: RedisExecuting {
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

    private let configuration: RedisConfiguration
    private let connector: RedisConnector
    private let group: any EventLoopGroup
    private let logger: Logger
    private let shared: Mutex<Shared>

    /// - Parameters:
    ///   - name: shown by CLIENT LIST: `megaton:<role>`.
    ///   - waitsForReconnect: as of `RedisClient`.
    init(
        _ configuration: RedisConfiguration,
        name: String,
        group: any EventLoopGroup,
        logger: Logger,
        waitsForReconnect: Bool
    ) {
        shared = Mutex(Shared(waitsForReconnect: waitsForReconnect))
        self.configuration = configuration
        connector = RedisConnector(configuration, name: name, group: group)
        self.group = group
        self.logger = logger
    }

    func connect(waiting limit: Duration) async throws(RedisError) {
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

    func execute(
        _ commands: [RedisCommand],
        script: RedisScript?,
        timeout: Duration
    ) async throws(RedisError) -> [RedisValue] {
        var replies = try await pipeline(commands, timeout: timeout)
        guard let script else { return replies }
        guard replies.count == commands.count else {
            throw RedisError(
                .unexpectedReply,
                "Redis replied to \(replies.count) of \(commands.count) commands."
            )
        }
        let unknown = replies.indices.filter { index in
            if case .error(let text) = replies[index] { text.hasPrefix("NOSCRIPT") } else { false }
        }
        if unknown.isEmpty { return replies }
        let loaded = try await pipeline([["SCRIPT", "LOAD", .string(script.source)]], timeout: timeout)
        if case .error(let text) = loaded.first { throw RedisError(reply: text) }
        let again = try await pipeline(unknown.map { commands[$0] }, timeout: timeout)
        for (index, reply) in zip(unknown, again) { replies[index] = reply }
        return replies
    }

    func executeOnMasters(
        _ command: RedisCommand,
        timeout: Duration
    ) async throws(RedisError) -> [(node: String?, reply: RedisValue)] {
        try await pipeline([command], timeout: timeout).map { (nil, $0) }
    }

    /// Sends several commands in one round trip. An error reply is returned as `.error` at the position of its command.
    func pipeline(_ commands: [RedisCommand], timeout: Duration) async throws(RedisError) -> [RedisValue] {
        do throws(ExchangeFailure) {
            return try await exchange(commands, timeout: timeout)
        } catch {
            throw error.error
        }
    }

    /// As ``pipeline(_:timeout:)``, for callers that send the commands elsewhere if none of them was sent.
    func exchange(_ commands: [RedisCommand], timeout: Duration) async throws(ExchangeFailure) -> [RedisValue] {
        let deadline = NIODeadline.now() + TimeAmount(timeout)
        let connection: RedisConnection
        do throws(RedisError) {
            connection = try await self.connection(before: deadline)
            guard NIODeadline.now() < deadline else { throw RedisError.connectingTookTooLong }
        } catch {
            throw ExchangeFailure(error: error, wasSent: false)
        }
        let replies: [RedisValue]
        do throws(RedisError) {
            replies = try await connection.send(commands, deadline: deadline)
        } catch {
            drop(connection, after: error)
            throw ExchangeFailure(error: error, wasSent: true)
        }
        // A replica took the server's place, or the master was demoted. The next command must resolve the name again.
        for case .error(let text) in replies {
            let error = RedisError(reply: text)
            // A node of a cluster that sends a command elsewhere goes on with the others.
            if configuration.acceptsClusterNode, text.hasPrefix("MOVED ") || text.hasPrefix("ASK ") { continue }
            if error.endsConnection { drop(connection, after: error) }
        }
        return replies
    }

    func failFast() {
        let attempt = shared.withLock { shared -> Task<Void, Never>? in
            shared.waitsForReconnect = false
            shared.failsFast = true
            // An attempt that follows no failure may succeed.
            guard shared.failure != nil, case .connecting(let task, _) = shared.state else { return nil }
            return task
        }
        attempt?.cancel()
    }

    func close() {
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
        case ready(RedisConnection)
        case running(EventLoopFuture<RedisConnection>)

        /// - Parameter deadline: limits the wait, not the attempt, which other callers share.
        func connection(before deadline: NIODeadline?) async throws(RedisError) -> RedisConnection {
            switch self {
            case .ready(let connection): return connection
            case .running(let future):
                return try await future.value(before: deadline)
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
                let isHopeless = [.closed, .authentication, .invalidConfiguration, .tls].contains(error.code)
                if isHopeless || !shared.withLock({ $0.waitsForReconnect }) || NIODeadline.now() >= deadline
                    || Task.isCancelled
                {
                    throw error == .connectingTookTooLong ? cause ?? error : error
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

/// The reason why commands have no replies.
struct ExchangeFailure: Error {
    let error: RedisError
    /// Whether the commands may have been sent, so that it is unknown which of them were executed.
    let wasSent: Bool
}

extension RedisError {
    /// The deadline passed before a connection was ready.
    static let connectingTookTooLong = RedisError(
        .unreachable,
        "Connecting to Redis took too long; the command was not sent."
    )
}

extension EventLoopFuture where Value: Sendable {
    /// Waits for the result of an attempt to connect.
    ///
    /// - Parameter deadline: limits the wait, not the attempt, which other callers share.
    func value(before deadline: NIODeadline?) async throws(RedisError) -> Value {
        let promise = eventLoop.makePromise(of: Value.self)
        cascade(to: promise)
        let timer = deadline.map { deadline in
            eventLoop.scheduleTask(deadline: deadline) { promise.fail(RedisError.connectingTookTooLong) }
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
