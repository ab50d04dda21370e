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

    /// Maximum number of dead jobs in a page; the queue limits its bytes.
    private static let page = 50

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
    /// - Returns: the number of jobs found, the sum of the results, and the ids that are not dead.
    func each(
        in queue: ShardedQueue,
        _ body: ([DeadLetter]) async throws -> Int
    ) async throws -> (found: Int, done: Int, missing: [String]) {
        var (found, done) = (0, 0)
        if !ids.isEmpty {
            var (letters, missing): ([[DeadLetter]], [String]) = ([], [])
            // All ids are looked up before the first job changes.
            for id in Set(ids).sorted() {
                let ofID = try await Self.letters(of: id, batch: batch, in: queue)
                if ofID.isEmpty { missing.append(id) } else { letters.append(ofID) }
            }
            for letters in letters {
                found += 1
                done += try await body(letters) > 0 ? 1 : 0
            }
            return (found, done, missing)
        }
        // Jobs that die meanwhile are not selected: a requeued job that fails at once would be requeued forever.
        let start = Double(try await queue.now()) / 1000
        // Jobs that stay are in front of those not seen yet; jobs that were removed are not.
        var offset = 0
        while true {
            let page = try await queue.deadLetters(offset: offset, limit: Self.page, until: start)
            if page.isEmpty { return (found, done, []) }
            let selected = page.filter { $0.matches(batch: batch, error: error) }
            let taken = selected.isEmpty ? 0 : try await body(selected)
            found += selected.count
            done += taken
            offset += page.count - taken
        }
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
        let letters = try await queue.deadLetters(id: id, batch: batch)
        let batches = Set(letters.map { $0.batch ?? "" }).sorted()
        guard batches.count > 1 else { return letters }
        let names = batches.prefix(shownBatches).map { $0.isEmpty ? "no batch (\"\")" : $0 }.joined(separator: ", ")
        let more = batches.count > shownBatches ? " and \(batches.count - shownBatches) more" : ""
        throw CLIError.usage(
            "\(batches.count) batches have a dead job with the id \"\(id)\": \(names)\(more). Name one of them with "
                + "--batch."
        )
    }

    private static let shownBatches = 20
    private static let shownIDs = 20
}

extension DeadLetter {
    /// Whether the letter is of a batch (`""` for none) and has an error code; nil selects all.
    func matches(batch: String?, error: String?) -> Bool {
        (batch == nil || self.batch ?? "" == batch) && (error == nil || content.code == error)
    }
}
