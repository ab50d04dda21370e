import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Synchronization
import Testing

/// A control Redis and the processes of a cluster, into which a test injects faults.
///
/// Every process that it started is ended by its own id when the body has returned or thrown.
final class FaultCluster: Sendable {
    /// The output of `megaton submit --wait --json`.
    struct Summary: Sendable, Decodable {
        let jobs: Int
        let done: Int
        let failed: Int
        let cancelled: Int
        let deduplicated: Int
    }

    let server: RedisServerProcess
    /// Directory that the workers may read and write.
    let directory: TestDirectory
    /// A direct connection to the control Redis, even if the processes under test connect through a proxy.
    let client: RedisClient
    private let started = Mutex<[ProgramUnderTest]>([])

    /// A small image for tests.
    static let image = TestImage.quarters(width: 64, height: 64)

    /// Options of a worker with eight slots, and with leases and flights short enough for tests.
    static let hasty = [
        "--concurrency", "8", "--lease", "2", "--sweep-interval", "0.2", "--flight-lease", "0.5",
    ]

    private init(_ server: RedisServerProcess, _ directory: TestDirectory) {
        self.server = server
        self.directory = directory
        client = server.client()
    }

    /// Starts Redis, runs the body, and ends all processes that were started.
    static func run(
        _ options: RedisServerProcess.Options = RedisServerProcess.Options(),
        _ body: (FaultCluster) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run(options) { (server) async throws in
            let cluster = FaultCluster(server, try TestDirectory())
            do {
                try await body(cluster)
            } catch {
                await cluster.end()
                throw error
            }
            await cluster.end()
        }
    }

    /// The same with an origin that serves one image at any path.
    static func runWithOrigin(
        _ options: RedisServerProcess.Options = RedisServerProcess.Options(),
        image: Data = FaultCluster.image,
        delay: TimeAmount = .zero,
        _ body: (FaultCluster, OriginServer) async throws -> Void
    ) async throws {
        try await OriginServer.run(delay: delay, answer: { _ in .image(image) }) { (origin) async throws in
            try await run(options) { (cluster) async throws in
                // Tests hold requests of many jobs at a time.
                try await cluster.client.noteAnswer(of: origin)
                try await body(cluster, origin)
            }
        }
    }

    private func end() async {
        let processes = started.withLock { $0 }
        // SIGKILL also ends stopped processes, and the test is over.
        for process in processes { process.send(SIGKILL) }
        for process in processes { _ = await process.ending() }
        client.close()
    }

    // MARK: - Processes

    /// - Parameters:
    ///   - url: of the control Redis; by default, the server's own.
    ///   - hasDisk: whether the worker may read and write the directory.
    @discardableResult
    func worker(
        _ options: [String] = [],
        redis url: String? = nil,
        environment: [String: String] = [:],
        hasDisk: Bool = true
    ) throws -> ProgramUnderTest {
        let roots = hasDisk ? ["--allow-root", directory.path] : []
        let all = ["worker", "--allow-private", "--render-threads", "1"] + roots + options
        return try start(all, redis: url, environment: environment)
    }

    @discardableResult
    func coordinator(_ options: [String] = []) throws -> ProgramUnderTest {
        try start(["coordinator"] + options)
    }

    /// Starts a coordinator, and a worker for each list of options. Returns the workers once all are ready.
    ///
    /// - Parameter hasDisk: whether the workers may read and write the directory.
    @discardableResult
    func start(workers options: [[String]], hasDisk: Bool = true) async throws -> [ProgramUnderTest] {
        try coordinator()
        let workers = try options.map { try worker($0, hasDisk: hasDisk) }
        try await waitUntilReady(workers: workers.count)
        return workers
    }

    private func start(
        _ arguments: [String],
        redis url: String? = nil,
        environment: [String: String] = [:]
    ) throws -> ProgramUnderTest {
        let process = try ProgramUnderTest.megaton(
            arguments + ["--redis", url ?? server.url],
            environment: environment
        )
        started.withLock { $0.append(process) }
        return process
    }

    /// Runs a command on the cluster's Redis to its end.
    func command(_ arguments: [String]) async throws -> ProgramUnderTest.Ending {
        await (try start(arguments)).ending()
    }

    /// Waits for a leader and `count` workers.
    func waitUntilReady(workers count: Int) async throws {
        try await wait(for: ["workers", "leader"]) { client in
            let workers = try await client.send(["ZCARD", "megaton:{default}:2:workers"]).int
            let leaders = try await client.send(["EXISTS", "megaton:{default}:2:leader"]).int
            return workers == count && leaders == 1
        }
    }

    // MARK: - Jobs

    /// Pushes a job to the public list, as any client may.
    func push(_ source: URL, id: String, attempts: Int = 5) async throws {
        let json = #"{"id":"\#(id)","source":"\#(source.absoluteString)","attempts":\#(attempts)}"#
        try await client.send(["LPUSH", "megaton:{default}:jobs", .string(json)])
    }

    /// Pushes a job with these fields, which are the inside of a JSON object.
    func push(fields: String) async throws {
        try await client.send(["LPUSH", "megaton:{default}:jobs", .string("{\(fields)}")])
    }

    /// Lets two jobs run whose paths answer 429: they stop their whole host for the time that the answers name. The
    /// host must answer so.
    func blockHost(of origin: OriginServer, paths: [String] = ["one", "two"]) async throws {
        for (number, path) in paths.enumerated() {
            try await push(origin.url("/\(path).png"), id: path, attempts: 1)
            // A job's completion follows the report about its host.
            try await wait(for: ["dead", "delay"]) { client in
                let dead = try await client.send(["ZCARD", "megaton:{default}:2:dead"]).int ?? 0
                let delayed = try await client.send(["ZCARD", "megaton:{default}:2:delay"]).int ?? 0
                return dead + delayed > number
            }
        }
    }

    /// The next outcome in a list that jobs name, which must come within the time of a test.
    func outcome(in list: String) async throws -> JobOutcome {
        try JSONDecoder().decode(JobOutcome.self, from: try await client.outcomes(1, of: list)[0])
    }

    /// Submits a batch in a process that waits for its end.
    func submit(_ sources: [URL], _ options: [String] = []) throws -> ProgramUnderTest {
        let name = "list-\(started.withLock { $0.count }).txt"
        let list = try directory.write(Data(sources.map(\.absoluteString).joined(separator: "\n").utf8), to: name)
        return try submit(list: list, options)
    }

    /// The same for an existing list file.
    func submit(list: String, _ options: [String] = []) throws -> ProgramUnderTest {
        try start(["submit", list, "--wait", "--json"] + options)
    }

    /// Waits for a batch's end.
    ///
    /// - Parameter code: expected exit code of the process.
    func summary(
        of submit: ProgramUnderTest,
        code: Int32 = 0,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> Summary {
        let ending = await submit.ending()
        #expect(ending.code == code, "\(ending.errors)", sourceLocation: sourceLocation)
        return try JSONDecoder().decode(Summary.self, from: Data(ending.output.utf8))
    }

    // MARK: - State in Redis

    /// Waits until a condition holds that can only change with one of the queue's keys.
    func wait(
        for keys: [String],
        until condition: @escaping @Sendable (RedisClient) async throws -> Bool
    ) async throws {
        try await server.wait(forChangesOf: keys.map { "megaton:{default}:2:\($0)" }, until: condition)
    }

    /// Waits until `count` jobs are done.
    func wait(untilDone count: Int) async throws {
        try await wait(for: ["stat"]) { client in
            try await client.send(["HGET", "megaton:{default}:2:stat", "done"]).int ?? 0 >= count
        }
    }

    /// Waits until `count` jobs are claimed.
    func wait(untilRunning count: Int) async throws {
        try await wait(for: ["lease"]) { client in
            try await client.send(["ZCARD", "megaton:{default}:2:lease"]).int == count
        }
    }

    /// Polls every 10 ms, with the output of CLIENT LIST, until there is a value: for state that no key reflects.
    func poll<Value: Sendable>(_ look: (_ clients: String) async throws -> Value?) async throws -> Value {
        while true {
            if let found = try await look(try await client.send(["CLIENT", "LIST"]).string ?? "") { return found }
            // Blocks for 10 ms, as a pause.
            try await client.send(["XREAD", "BLOCK", "10", "STREAMS", "pause", "$"])
        }
    }

    /// A counter of the queue; 0 if it was never written.
    func statistic(_ name: String) async throws -> Int {
        try await client.send(["HGET", "megaton:{default}:2:stat", .string(name)]).int ?? 0
    }

    /// Number of late completions that were refused or held back. Workers add their counters when they end.
    func lateEnds() async throws -> Int {
        var sum = 0
        for name in ["late_gone", "late_fenced", "late_nolease", "fenced"] { sum += try await statistic(name) }
        return sum
    }

    /// Keys that still hold a job; none once all have ended.
    func leftovers() async throws -> [String] {
        var found: [String] = []
        if try await client.send(["EXISTS", "megaton:{default}:jobs"]).int == 1 { found.append("jobs") }
        for key in [
            "lease", "delay", "holding", "ready:high", "ready:normal", "ready:bulk", "suspects", "body", "meta",
        ] {
            if try await client.send(["EXISTS", .string("megaton:{default}:2:\(key)")]).int == 1 { found.append(key) }
        }
        return found
    }

    /// The meta of each live job: attempt, stalls, worker, priority and batch, separated by bars.
    static func metas(_ client: RedisClient) async throws -> [String] {
        (try await client.send(["HVALS", "megaton:{default}:2:meta"]).array ?? []).compactMap(\.string)
    }

    /// Whether a job is claimed by no worker, and neither an attempt nor a stall counts against it.
    ///
    /// The first field is the number of claims, and after a plus the number of claims that do not count.
    static func isAsNew(_ meta: String) -> Bool {
        let fields = meta.split(separator: "|", omittingEmptySubsequences: false)
        let claims = (fields.first ?? "").split(separator: "+").compactMap { Int($0) }
        guard fields.count == 5, let all = claims.first else { return false }
        return all == (claims.count == 2 ? claims[1] : 0) && fields[1] == "0"
            && (fields[2].isEmpty || fields[2].hasPrefix("@"))
    }

    /// The error code of a dead letter.
    func deathCode(_ id: String) async throws -> String? {
        try await JobQueue(client, keys: QueueKeys()).deadLetter(id: id)?.content.code
    }

    /// Expires all leases now, as if their workers had been dead for long enough.
    func expireLeases() async throws {
        let ids = (try await client.send(["ZRANGE", "megaton:{default}:2:lease", "0", "-1"]).array ?? [])
            .compactMap(\.string)
        // Makes the workers' last heartbeats old as well.
        let workers = (try await client.send(["ZRANGE", "megaton:{default}:2:workers", "0", "-1"]).array ?? [])
            .compactMap(\.string)
        for worker in workers {
            try await client.send(["ZADD", "megaton:{default}:2:workers", "XX", "0", .string(worker)])
        }
        for id in ids { try await client.send(["ZADD", "megaton:{default}:2:lease", "XX", "0", .string(id)]) }
    }

    // MARK: - Files

    /// Decodes the lines of a JSON-lines file of the directory: a ledger or a history.
    func lines<Line: Decodable>(of name: String, as type: Line.Type) throws -> [Line] {
        let text = try String(contentsOfFile: "\(directory.path)/\(name)", encoding: .utf8)
        return try text.split(separator: "\n").map { try JSONDecoder().decode(type, from: Data($0.utf8)) }
    }
}
