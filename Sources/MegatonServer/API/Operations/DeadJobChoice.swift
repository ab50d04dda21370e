internal import MegatonCluster
internal import MegatonCore

/// The body of a request that changes dead jobs: one of `{"ids": [...]}`, `{"batch": …}`, `{"error": …}` and
/// `{"all": true}`.
enum DeadJobChoice: Decodable, Equatable {
    /// Ids, or `batch/id` if several batches have the id.
    case ids([String])
    /// The jobs of a batch; empty for jobs without one.
    case batch(String)
    /// The jobs with an error code.
    case error(String)
    case all

    /// Maximum number of ids: the queue searches all of its dead jobs for each.
    static let maximumIDs = 100
    /// Sizes of an id, characters as JSON Schema counts them: a batch, a slash and an id.
    private static let idSizes = 1...300
    private static let errorSizes = 1...64

    private enum CodingKeys: String, CodingKey, CaseIterable {
        case ids, batch, error, all
    }

    private static let example = #"{"ids": ["a"]}, {"batch": "b"}, {"error": "not_found"} or {"all": true}"#

    init(from decoder: any Decoder) throws {
        let fields = try decoder.fields(CodingKeys.self, isChecked: false, allowed: Self.example)
        func problem(_ key: CodingKeys, _ text: String) -> DecodingError {
            FieldProblem.error(at: decoder.codingPath + [key], text)
        }
        guard fields.allKeys.count == 1 else {
            throw FieldProblem.error(
                at: decoder.codingPath,
                "has \(fields.allKeys.count) of ids, batch, error and all, and must have one: \(Self.example)"
            )
        }
        let allowedIDs = "are lists of 1 to \(Self.maximumIDs) ids of jobs"
        let allowedBatches = "are names of batches, and \"\" for none"
        if let ids = try fields.read([ListedText].self, .ids, allowed: allowedIDs)?.map(\.text) {
            guard (1...Self.maximumIDs).contains(ids.count) else {
                throw problem(.ids, "has \(ids.count) ids; allowed \(allowedIDs)")
            }
            if let other = ids.first(where: { !Self.idSizes.contains($0.unicodeScalars.count) }) {
                throw problem(.ids, "has \(FieldProblem.quoted(other)), which no job has as its id")
            }
            self = .ids(ids)
        } else if let batch = try fields.read(String.self, .batch, allowed: allowedBatches) {
            guard batch.isEmpty || Job.isName(batch) else {
                throw problem(.batch, "is \(FieldProblem.quoted(batch)); allowed \(allowedBatches)")
            }
            self = .batch(batch)
        } else if let error = try fields.read(String.self, .error, allowed: "are codes such as not_found") {
            guard Self.errorSizes.contains(error.unicodeScalars.count) else {
                throw problem(.error, "is \(FieldProblem.quoted(error)); allowed are codes such as not_found")
            }
            self = .error(error)
        } else if try fields.read(Bool.self, .all, allowed: "is true only") == true {
            self = .all
        } else {
            throw FieldProblem.error(at: decoder.codingPath, "selects no job; it must be like \(Self.example)")
        }
    }

    /// Runs the body on the selected jobs; see `DeadJobs`.
    func change(
        _ queue: ShardedQueue,
        _ body: ([DeadLetter]) async throws -> Int
    ) async throws -> DeadJobs.Change {
        let jobs = DeadJobs(queue)
        switch self {
        case .ids(let ids): return try await jobs.change(ids: ids, batch: nil, body)
        case .batch(let batch): return try await jobs.change(batch: batch, error: nil, body)
        case .error(let error): return try await jobs.change(batch: nil, error: error, body)
        case .all: return try await jobs.change(batch: nil, error: nil, body)
        }
    }
}

/// A text in a list of a request's body. The message about another value names its place in the list.
struct ListedText: Decodable {
    let text: String

    init(from decoder: any Decoder) throws {
        guard let text = try? decoder.singleValueContainer().decode(String.self) else {
            throw FieldProblem.error(
                at: decoder.codingPath,
                "is \(FieldProblem.value(of: decoder)); allowed are texts in quotes"
            )
        }
        self.text = text
    }
}
