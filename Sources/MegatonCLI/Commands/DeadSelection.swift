import ArgumentParser
import MegatonCluster
import MegatonCommandLine

/// Selection of dead jobs.
struct DeadSelection: ParsableArguments {
    @Argument(help: "Ids of jobs.")
    var ids: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp("Jobs of this batch (\"\" for jobs without one); also with ids.", valueName: "name")
    )
    var batch: String?

    @Option(
        name: .long,
        help: ArgumentHelp("Jobs with this error code: not_found, corrupt_image, …", valueName: "code")
    )
    var error: String?

    @Flag(name: .long, help: "All dead jobs.")
    var all = false

    mutating func validate() throws {
        let isNamed = !ids.isEmpty
        let isFiltered = batch != nil || error != nil
        if !isNamed && !isFiltered && !all {
            throw ValidationError("No jobs are named: give ids, --batch, --error or --all.")
        }
        if isNamed && (error != nil || all) { throw ValidationError("Ids do not go with --error or --all.") }
    }

    /// Runs the body on all selected jobs, a page at a time, and sums its results.
    ///
    /// - Parameter time: ms of the clock of Redis until which the jobs have died, if they are not named by ids; now if
    ///   nil.
    /// - Returns: the number of jobs found, the sum of the results, and the ids that are not dead.
    func each(
        in queue: ShardedQueue,
        until time: Int? = nil,
        _ body: ([DeadLetter]) async throws -> Int
    ) async throws -> (found: Int, done: Int, missing: [String]) {
        let change = try await Self.namingBatches {
            if ids.isEmpty { return try await DeadJobs(queue).change(batch: batch, error: error, until: time, body) }
            return try await DeadJobs(queue).change(ids: ids, batch: batch, body)
        }
        return (change.found, change.done, change.missing)
    }

    /// Number of dead jobs that the filters select; ids are not counted.
    func count(in queue: ShardedQueue) async throws -> Int {
        if batch == nil && error == nil { return try await queue.deadCount() }
        return try await each(in: queue) { _ in 0 }.found
    }

    /// The filters as they follow "dead jobs" in a sentence; empty without filters.
    var scope: String {
        Self.phrase(batch) + (error.map { " with the error \"\($0)\"" } ?? "")
    }

    /// A batch as it follows "dead job" in a sentence; empty if it is nil.
    static func phrase(_ batch: String?) -> String {
        batch.map { $0.isEmpty ? " without a batch" : " of the batch \"\($0)\"" } ?? ""
    }

    /// Reports a selection that names missing jobs.
    ///
    /// - Throws: `CLIError` 1 with the jobs that were not found.
    func check(found: Int, missing: [String]) throws {
        if !missing.isEmpty {
            let names = missing.prefix(Self.shownIDs).joined(separator: ", ")
            let more = missing.count > Self.shownIDs ? " and \(missing.count - Self.shownIDs) more" : ""
            throw CLIError.notFound(
                "no dead job\(Self.phrase(batch)) has the \(missing.count == 1 ? "id" : "ids") \(names)\(more); "
                    + "megaton dead list shows the dead jobs."
            )
        }
        guard ids.isEmpty, found == 0, batch != nil || error != nil else { return }
        let filters = [batch.map { "batch \"\($0)\"" }, error.map { "error \"\($0)\"" }].compactMap { $0 }
        throw CLIError.notFound(
            "no dead job has the \(filters.joined(separator: " and the ")); megaton dead list shows the dead jobs."
        )
    }

    /// The dead letters of an id: usually one; more if jobs of the batch were refused because they had the same id.
    ///
    /// - Throws: `CLIError` if jobs of several batches have the id.
    static func letters(of id: String, batch: String?, in queue: ShardedQueue) async throws -> [DeadLetter] {
        try await namingBatches { try await DeadJobs(queue).letters(of: id, batch: batch) }
    }

    /// Runs the body, and names the option for an id that several batches have.
    private static func namingBatches<Value>(_ body: () async throws -> Value) async throws -> Value {
        do {
            return try await body()
        } catch let error as DeadJobs.Ambiguity {
            let names = error.batches.prefix(shownBatches).map { $0.isEmpty ? "no batch (\"\")" : $0 }
            let more = error.batches.count > shownBatches ? " and \(error.batches.count - shownBatches) more" : ""
            throw CLIError.usage(
                "\(error.batches.count) batches have a dead job with the id \"\(error.id)\": "
                    + "\(names.joined(separator: ", "))\(more). Name one of them with --batch."
            )
        }
    }

    private static let shownBatches = 20
    private static let shownIDs = 20
}
