import Foundation
import Logging
package import MegatonCluster
package import MegatonRedis
import NIOPosix
import Synchronization

/// A private redis-server on a Unix socket: cache and queue of one `megaton run`.
///
/// Its data, the cache, is in `$XDG_CACHE_HOME/megaton`, or `$HOME/.cache/megaton`, and is saved at the end, so that
/// the next run finds it. One Redis can serve as both here: `volatile-lru` evicts cache entries, which all have a time
/// to live, and never a job.
package struct EmbeddedRedis: Sendable {
    /// Maximum size of its data, bytes.
    package let size: Int
    /// Whether its data is discarded at the end.
    package var isTemporary: Bool
    /// A signal ends the wait for the start.
    package var shutdown: ShutdownSignal
    /// The end of `--timeout`, which includes the start; nil if there is none.
    package var deadline: ContinuousClock.Instant?

    package init(
        size: Int,
        isTemporary: Bool = false,
        shutdown: ShutdownSignal = ShutdownSignal(),
        deadline: ContinuousClock.Instant? = nil
    ) {
        self.size = size
        self.isTemporary = isTemporary
        self.shutdown = shutdown
        self.deadline = deadline
    }

    /// The data directory in use.
    private struct DataDirectory {
        let path: String
        let isTemporary: Bool
    }

    /// Exit code of `flock` if another process has locked the directory.
    private static let lockedCode: Int32 = 75
    private static let startTimeout: Duration = .seconds(60)
    /// The saved cache in its directory.
    private static let dataFile = "cache.rdb"

    /// Starts the server, runs the body with its address, and stops the server, which saves its data unless it is
    /// temporary.
    package func run<Value: Sendable>(_ body: @escaping @Sendable (RedisConfiguration) async throws -> Value)
        async throws
        -> Value
    {
        guard let server = Self.find("redis-server") else {
            throw CLIError.unavailable(
                "redis-server is not installed: run apt-get install redis-server, or name a Redis with --redis URL."
            )
        }
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        let temporary = DataDirectory(path: directory.path, isTemporary: true)
        if isTemporary { return try await start(server, directory, temporary, body) }
        let persistent: DataDirectory
        do {
            let path = try Self.persistentPath(ProcessInfo.processInfo.environment)
            persistent = DataDirectory(path: path, isTemporary: false)
        } catch {
            Terminal.error("megaton: \(error.message)")
            return try await start(server, directory, temporary, body)
        }
        do {
            do {
                return try await start(server, directory, persistent, body)
            } catch is Damaged {
                try Self.setAside(in: persistent.path)
                return try await start(server, directory, persistent, body)
            }
        } catch is Locked {
            Terminal.error(
                "megaton: another run uses the cache in \(persistent.path); this one has a cache of its own, until it "
                    + "ends."
            )
            return try await start(server, directory, temporary, body)
        } catch is Damaged {
            // It could not be set aside, or a second server refuses the empty directory too.
            return try await start(server, directory, temporary, body)
        }
    }

    /// Another process uses the directory.
    private struct Locked: Error {}

    /// The server cannot load the cache of earlier runs.
    private struct Damaged: Error {}

    /// Renames the saved cache, so that the server starts without it; an earlier one with the new name is replaced.
    /// Another run may have done so at the same time.
    ///
    /// - Throws: `Damaged` if that fails.
    private static func setAside(in directory: String) throws {
        let (path, other) = ("\(directory)/\(dataFile)", "\(directory)/\(dataFile).damaged")
        guard rename(path, other) == 0 || errno == ENOENT else {
            Terminal.error(
                "megaton: redis-server cannot load the cache of earlier runs, \(path); this run has a cache of its "
                    + "own, until it ends. Delete the file, or name another directory with XDG_CACHE_HOME."
            )
            throw Damaged()
        }
        Terminal.error(
            "megaton: redis-server cannot load the cache of earlier runs, which is now \(other); this run begins with "
                + "an empty one."
        )
    }

    /// Whether the log of a server that ended at its start says that it cannot load its data. Versions of redis-server
    /// and Valkey differ in the sentence.
    static func isDamaged(log: String) -> Bool {
        let signs = [
            "loading the DB", "loading DB", "trying to load DB", "RDB ERROR DETECTED", "RDB format version",
            "rdb file reading", "RDB checksum",
        ]
        return signs.contains { log.contains($0) }
    }

    /// Whether the server has answered.
    private final class Readiness: Sendable {
        let isReady = Atomic(false)
    }

    private func start<Value: Sendable>(
        _ server: String,
        _ directory: TemporaryDirectory,
        _ data: DataDirectory,
        _ body: @escaping @Sendable (RedisConfiguration) async throws -> Value
    ) async throws -> Value {
        let runtime = directory.path
        let socket = "\(runtime)/redis.sock"
        let configuration = "\(runtime)/redis.conf"
        let logs = ["\(runtime)/redis.out", "\(runtime)/redis.log"]
        // A server that was started before this one may have left them.
        for log in logs { unlink(log) }
        try Self.write(settings(socket: socket, data: data, log: "\(runtime)/redis.log"), to: configuration)
        let child = ChildProcess(
            command: [
                "/usr/bin/flock", "--nonblock", "--conflict-exit-code", String(Self.lockedCode), "--no-fork",
                "\(data.path)/lock", server, configuration,
            ],
            log: "\(runtime)/redis.out",
            gracePeriod: .seconds(120),
            lock: directory.lockPath
        )
        let address = RedisConfiguration(address: .unix(path: socket))
        let readiness = Readiness()
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask {
                let termination = try await child.run()
                if termination == .exited(Self.lockedCode) { throw Locked() }
                if Task.isCancelled { return nil }
                // Without a log the message has no details. Faults of the configuration are in the output alone.
                let log = logs.compactMap { try? String(contentsOfFile: $0, encoding: .utf8) }.joined(separator: "\n")
                let isReady = readiness.isReady.load(ordering: .relaxed)
                if !isReady && !data.isTemporary && Self.isDamaged(log: log) { throw Damaged() }
                throw isReady
                    ? Self.ended(termination, log: log) : Self.didNotStart(termination, data.path, log: log)
            }
            group.addTask {
                try await waitUntilReady(address)
                readiness.isReady.store(true, ordering: .relaxed)
                try await Self.forget(QueueKeys.patternOfAll, address)
                return try await body(address)
            }
            guard let value = try await group.next() ?? nil else {
                throw CLIError.unavailable(
                    "the private redis-server ended early. The same command again makes the missing outputs."
                )
            }
            // Stops the server: SIGTERM makes it save.
            group.cancelAll()
            try? await group.waitForAll()  // The exit of the server is no failure any more.
            // Without a log the success of the save is unknown.
            let words = (try? String(contentsOfFile: "\(runtime)/redis.log", encoding: .utf8)) ?? ""
            if words.contains("Error trying to save the DB") {
                Terminal.error(
                    "megaton: the cache could not be saved in \(data.path); is the disk full? The next run makes "
                        + "everything again."
                )
            }
            return value
        }
    }

    /// The server ended, and with it the queue.
    static func ended(_ termination: ChildProcess.Termination, log: String) -> CLIError {
        .unavailable(
            "the private redis-server ended (\(termination)). The same command again makes the missing outputs."
                + errors(termination, log)
        )
    }

    /// The server ended before it answered: no job was submitted.
    static func didNotStart(_ termination: ChildProcess.Termination, _ directory: String, log: String) -> CLIError {
        .unavailable(
            "the private redis-server did not start with its data in \(directory) (\(termination)); nothing was begun."
                + errors(termination, log)
        )
    }

    /// Errors of the log for a message. A signal comes from outside of the server: its log has no reason.
    private static func errors(_ termination: ChildProcess.Termination, _ log: String) -> String {
        guard case .exited = termination else { return "" }
        let errors = LogTail.errors(ofRedisLog: log)
        return errors.isEmpty ? "" : " Its log: \(errors)"
    }

    private func settings(socket: String, data: DataDirectory, log: String) -> String {
        """
        port 0
        unixsocket "\(socket)"
        unixsocketperm 700
        dir "\(data.path)"
        dbfilename \(Self.dataFile)
        daemonize no
        loglevel warning
        logfile "\(log)"
        databases 1
        maxmemory \(size)
        maxmemory-policy volatile-lru
        lazyfree-lazy-eviction yes
        lazyfree-lazy-expire yes
        # Saved once, at the end. Images are compressed already.
        save ""
        rdbcompression no
        appendonly no
        # Redis looks this many times a second whether it was told to end, and otherwise ten times: the run waits.
        hz 100
        # Forced: a full disk must not keep the server running.
        shutdown-on-sigterm \(data.isTemporary ? "nosave" : "save force")
        shutdown-on-sigint \(data.isTemporary ? "nosave" : "save force")
        """
    }

    /// Waits until Redis has loaded its saved data and answers.
    ///
    /// - Throws: `CLIError` 130 after a signal, and 75 after `--timeout`: a large cache takes long to load.
    private func waitUntilReady(_ address: RedisConfiguration) async throws {
        let limit = ContinuousClock.now + Self.startTimeout
        try await retrying(
            until: ContinuousClock.now >= limit || Task.isCancelled,
            cancellation: CancellationError()
        ) {
            if shutdown.level > .none {
                throw CLIError(code: 130, message: "interrupted while the private Redis started; nothing was begun.")
            }
            if let deadline, ContinuousClock.now >= deadline {
                throw CLIError(
                    code: 75,
                    message: "--timeout ended while the private Redis started; nothing was begun. Allow more time: "
                        + "Redis loads the cache of earlier runs first."
                )
            }
            let client = RedisClient(
                address,
                role: "start",
                group: MultiThreadedEventLoopGroup.singleton,
                logger: LogOptions.logger("megaton.redis", level: .critical)
            )
            defer { client.close() }
            try await client.connect()
            try await client.send(["PING"])
        } pauseAfter: { error in
            // A Redis that fails has not started yet, or is still loading.
            error is RedisError ? .milliseconds(5) : nil
        }
    }

    /// Deletes the keys of a pattern. Used for the queue: a run that was killed leaves jobs behind, and no caller waits
    /// for their outputs. The run that repeats it submits all jobs again, and finds finished work in the cache.
    private static func forget(_ pattern: String, _ address: RedisConfiguration) async throws {
        let client = RedisClient(
            address,
            role: "start",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: LogOptions.logger("megaton.redis", level: .critical)
        )
        defer { client.close() }
        var cursor = "0"
        repeat {
            let reply = try await client.send(
                ["SCAN", .string(cursor), "MATCH", .string(pattern), "COUNT", "1000"])
            let parts = reply.array ?? []
            cursor = parts.first?.string ?? "0"
            let names = (parts.last?.array ?? []).compactMap(\.string)
            if !names.isEmpty { try await client.send(RedisCommand(["UNLINK"] + names.map { .string($0) })) }
        } while cursor != "0"
    }

    // MARK: - Paths

    private static func find(_ program: String) -> String? {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
        return path.split(separator: ":").map { "\($0)/\(program)" }.first { access($0, X_OK) == 0 }
    }

    /// The directory of the cache, which is created if it is missing.
    ///
    /// `NSHomeDirectory` asks the password database, whatever `HOME` is.
    ///
    /// - Throws: `CLIError` if it cannot be created or written: the run then has a temporary cache.
    static func persistentPath(_ environment: [String: String]) throws(CLIError) -> String {
        let home = environment["HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? NSHomeDirectory()
        // The specification of this variable ignores relative paths: each directory would get a cache of its own.
        let base = environment["XDG_CACHE_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "\(home)/.cache"
        let path = "\(base)/megaton"
        do {
            try FileManager.default.createDirectory(
                atPath: path,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw unusable(path, "cannot be created: \(CLIError.reason(error))")
        }
        guard access(path, R_OK | W_OK | X_OK) == 0 else {
            throw unusable(path, "cannot be used: \(String(cString: strerror(errno)))")
        }
        return path
    }

    private static func unusable(_ path: String, _ reason: String) -> CLIError {
        .output(
            "the cache directory \(path) \(reason); this run has a cache of its own, until it ends. XDG_CACHE_HOME in "
                + "the environment names another directory."
        )
    }

    private static func write(_ text: String, to path: String) throws {
        do {
            try text.write(toFile: path, atomically: false, encoding: .utf8)
        } catch {
            throw CLIError.output("\(path) cannot be written: \(CLIError.reason(error)).")
        }
    }
}
