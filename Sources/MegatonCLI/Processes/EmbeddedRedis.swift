import Foundation
import Logging
import MegatonCluster
import MegatonRedis
import NIOPosix

/// A private redis-server on a Unix socket: cache and queue of one `megaton run`.
///
/// Its data (the cache) lie in `$XDG_CACHE_HOME/megaton` and are saved at the end, so that the next run finds them.
/// One Redis for both is right here: `volatile-lru` evicts cache entries, which all have a time-out, and never a job.
struct EmbeddedRedis: Sendable {
    /// Bytes that it may hold.
    let size: Int
    /// Whether nothing of it lasts.
    var isTemporary = false
    /// A signal ends the wait for the start.
    var shutdown = ShutdownSignal()
    /// The end of `--timeout`, which the start is a part of; nil if there is none.
    var deadline: ContinuousClock.Instant?

    /// What became of the data directory.
    private struct Place {
        let data: String
        let isTemporary: Bool
    }

    /// The exit code by which `flock` says that somebody else has the directory.
    private static let lockedCode: Int32 = 75
    private static let startTimeout: Duration = .seconds(60)

    /// Starts it, runs the body with its address, and ends it: saved where it was started for good.
    func run<Value: Sendable>(_ body: @escaping @Sendable (RedisConfiguration) async throws -> Value) async throws
        -> Value
    {
        guard let server = Self.find("redis-server") else {
            throw Failure.unavailable(
                "redis-server is not installed. apt-get install redis-server, or name a Redis with --redis URL."
            )
        }
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        let runtime = directory.path
        let passing = Place(data: runtime, isTemporary: true)
        if isTemporary { return try await start(server, runtime, passing, body) }
        let lasting = Place(data: try Self.dataDirectory(), isTemporary: false)
        do {
            return try await start(server, runtime, lasting, body)
        } catch is Locked {
            Terminal.error(
                "megaton: another run uses \(lasting.data); this one has a cache of its own, which does not last."
            )
            return try await start(server, runtime, passing, body)
        }
    }

    private struct Locked: Error {}

    private func start<Value: Sendable>(
        _ server: String,
        _ runtime: String,
        _ place: Place,
        _ body: @escaping @Sendable (RedisConfiguration) async throws -> Value
    ) async throws -> Value {
        let socket = "\(runtime)/redis.sock"
        let configuration = "\(runtime)/redis.conf"
        try Self.write(settings(socket: socket, place: place, log: "\(runtime)/redis.log"), to: configuration)
        let child = ChildProcess(
            command: [
                "/usr/bin/flock", "--nonblock", "--conflict-exit-code", String(Self.lockedCode), "--no-fork",
                "\(place.data)/lock", server, configuration,
            ],
            log: "\(runtime)/redis.out",
            patience: .seconds(120)
        )
        let address = RedisConfiguration(address: .unix(path: socket))
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask {
                let ending = try await child.run()
                if ending == .exited(Self.lockedCode) { throw Locked() }
                if Task.isCancelled { return nil }
                // Without a log there is nothing to add.
                let log = (try? String(contentsOfFile: "\(runtime)/redis.log", encoding: .utf8)) ?? ""
                throw Failure.unavailable("the embedded redis-server ended (\(ending)). \(log.suffix(400))")
            }
            group.addTask {
                try await waitUntilReady(address)
                try await Self.forget(QueueKeys.patternOfAll, address)
                return try await body(address)
            }
            guard let value = try await group.next() ?? nil else {
                throw Failure.unavailable("the embedded redis-server ended early.")
            }
            // Ends the server: SIGTERM makes it save.
            group.cancelAll()
            try? await group.waitForAll()  // The server's own ending is no failure any more.
            // Without a log nothing says that it was not saved.
            let words = (try? String(contentsOfFile: "\(runtime)/redis.log", encoding: .utf8)) ?? ""
            if words.contains("Error trying to save the DB") {
                Terminal.error(
                    "megaton: the cache could not be saved in \(place.data); is the disk full? The next run makes all anew."
                )
            }
            return value
        }
    }

    private func settings(socket: String, place: Place, log: String) -> String {
        """
        port 0
        unixsocket "\(socket)"
        unixsocketperm 700
        dir "\(place.data)"
        dbfilename cache.rdb
        daemonize no
        loglevel warning
        logfile "\(log)"
        databases 1
        maxmemory \(size)
        maxmemory-policy volatile-lru
        lazyfree-lazy-eviction yes
        lazyfree-lazy-expire yes
        # Saved once, at the end. Images do not compress any further.
        save ""
        rdbcompression no
        appendonly no
        # By force: a disk that is full must not keep the server, and us, for ever.
        shutdown-on-sigterm \(place.isTemporary ? "nosave" : "save force")
        shutdown-on-sigint \(place.isTemporary ? "nosave" : "save force")
        """
    }

    /// Redis loads what it saved before it answers.
    ///
    /// - Throws: `Failure` 130 after a signal, and 75 if the time of `--timeout` is up: a large cache takes long to load.
    private func waitUntilReady(_ address: RedisConfiguration) async throws {
        let limit = ContinuousClock.now + Self.startTimeout
        while true {
            if shutdown.level > .none {
                throw Failure(code: 130, message: "interrupted while the private Redis started; nothing was begun.")
            }
            if let deadline, ContinuousClock.now >= deadline {
                throw Failure(
                    code: 75,
                    message: "the time of --timeout was up while the private Redis started; nothing was begun. Give it "
                        + "more time: Redis loads the cache of earlier runs first."
                )
            }
            let client = RedisClient(
                address,
                role: "start",
                group: MultiThreadedEventLoopGroup.singleton,
                logger: LogOptions.logger("megaton.redis", level: .critical)
            )
            defer { client.close() }
            do {
                try await client.connect()
                try await client.send(["PING"])
                return
            } catch {
                // Not there yet, or loading: that is what we wait for.
                guard ContinuousClock.now < limit, !Task.isCancelled else { throw error }
                try await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    /// Deletes keys. The queue's own: a run that was killed leaves jobs behind whose outputs nobody waits for: the run that repeats it submits all of
    /// them again and finds what was done in the cache.
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

    // MARK: - Places

    private static func find(_ program: String) -> String? {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
        return path.split(separator: ":").map { "\($0)/\(program)" }.first { access($0, X_OK) == 0 }
    }

    private static func dataDirectory() throws -> String {
        let environment = ProcessInfo.processInfo.environment
        let base = environment["XDG_CACHE_HOME"].flatMap { $0.isEmpty ? nil : $0 } ?? NSHomeDirectory() + "/.cache"
        let path = "\(base)/megaton"
        do {
            try FileManager.default.createDirectory(
                atPath: path,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw Failure.output("the cache directory \(path) cannot be made: \(Failure.reason(error)).")
        }
        return path
    }

    private static func write(_ text: String, to path: String) throws {
        do {
            try text.write(toFile: path, atomically: false, encoding: .utf8)
        } catch {
            throw Failure.output("\(path) cannot be written: \(Failure.reason(error)).")
        }
    }
}
