internal import MegatonRedis

/// Dead jobs of a queue, selected by id, or by batch and error code.
package struct DeadJobs: Sendable {
    /// The numbers of a change of dead jobs.
    package struct Change: Sendable, Equatable {
        /// Number of dead jobs that were selected.
        package var found = 0
        /// Number of those that were changed.
        package var done = 0
        /// Selected ids that no dead job has.
        package var missing: [String] = []
    }

    /// Dead jobs of several batches have an id, and no batch was named.
    package struct Ambiguity: Error, Sendable, Equatable {
        package let id: String
        /// In order; empty for jobs without a batch.
        package let batches: [String]
    }

    private let queue: ShardedQueue

    /// Maximum number of dead jobs in a page; the queue limits its bytes.
    private static let page = 50

    package init(_ queue: ShardedQueue) { self.queue = queue }

    /// The dead letters of an id: usually one; more if jobs of the batch were refused because they had the same id.
    ///
    /// - Parameter batch: nil for any batch; empty for jobs without one.
    /// - Throws: ``Ambiguity``, and the errors of Redis.
    package func letters(of id: String, batch: String?) async throws -> [DeadLetter] {
        let letters = try await queue.deadLetters(id: id, batch: batch)
        let batches = Set(letters.map { $0.batch ?? "" }).sorted()
        guard batches.count <= 1 else { throw Ambiguity(id: id, batches: batches) }
        return letters
    }

    /// Runs the body on the letters of each id, and counts the jobs for which it returns more than 0.
    ///
    /// - Throws: ``Ambiguity`` before anything has changed, and the errors of Redis and of the body.
    package func change(
        ids: [String],
        batch: String?,
        _ body: ([DeadLetter]) async throws -> Int
    ) async throws -> Change {
        var (change, letters) = (Change(), [[DeadLetter]]())
        // All ids are looked up before the first job changes.
        for id in Set(ids).sorted() {
            let ofID = try await self.letters(of: id, batch: batch)
            if ofID.isEmpty { change.missing.append(id) } else { letters.append(ofID) }
        }
        for ofID in letters {
            change.found += 1
            change.done += try await body(ofID) > 0 ? 1 : 0
        }
        return change
    }

    /// Runs the body on all jobs of a batch or with an error code, a page at a time, and sums its results.
    ///
    /// - Parameters:
    ///   - batch: nil for all batches; empty for jobs without one.
    ///   - error: nil for all errors.
    ///   - time: ms of the clock of Redis until which they have died; now if nil.
    ///   - body: returns the number of letters that it has removed.
    package func change(
        batch: String?,
        error: String?,
        until time: Int? = nil,
        _ body: ([DeadLetter]) async throws -> Int
    ) async throws -> Change {
        // Jobs that die meanwhile are not selected: a requeued job that fails at once would be requeued forever.
        let now: Int
        if let time { now = time } else { now = try await queue.now() }
        let start = Double(now) / 1000
        // Jobs that stay are in front of those not seen yet; jobs that were removed are not.
        var (change, offset) = (Change(), 0)
        while true {
            let page = try await queue.deadLetters(offset: offset, limit: Self.page, until: start)
            if page.isEmpty { return change }
            let selected = page.filter { $0.matches(batch: batch, error: error) }
            let taken = selected.isEmpty ? 0 : try await body(selected)
            change.found += selected.count
            change.done += taken
            offset += page.count - taken
        }
    }
}

extension DeadLetter {
    /// Whether the letter is of a batch (`""` for none) and has an error code; nil selects all.
    package func matches(batch: String?, error: String?) -> Bool {
        (batch == nil || self.batch ?? "" == batch) && (error == nil || content.code == error)
    }
}
