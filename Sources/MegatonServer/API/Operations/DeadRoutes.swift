internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import MegatonCluster
internal import MegatonCore
internal import MegatonRedis
internal import NIOCore

/// The jobs that failed for good: listed, shown, requeued and dropped.
struct DeadRoutes: Sendable {
    let cluster: ClusterConnection
    private let requests = RequestLimit(Self.maximumRequests, of: "requests for dead jobs")

    /// Maximum number of requests at a time: each may keep ``listedBytes`` twice until its client has read them, or
    /// search all letters of Redis.
    private static let maximumRequests = 8
    /// Maximum number of letters that a request examines: a filter may select few of them.
    private static let examined = 5_000
    /// Bytes of jobs above which an answer has no further letter.
    private static let listedBytes = 8 * 1024 * 1024
    private static let limits = 1...1_000
    /// The position behind the last letter that was examined; the queue keeps at most 100,000 in each shard.
    private static let cursors = 0...999_999_999

    init(cluster: ClusterConnection) { self.cluster = cluster }

    func add(
        to read: RouterGroup<ServerContext>,
        submit: RouterGroup<ServerContext>,
        admin: RouterGroup<ServerContext>
    ) {
        read.get("dead") { request, context in try await list(request, context) }
        read.get("dead/:id") { request, context in
            try await show(try context.segment("id"), request, context)
        }
        // A job may have one of these ids, and the router would find no other path for it.
        read.get("dead/requeue") { request, context in try await show("requeue", request, context) }
        read.get("dead/drop") { request, context in try await show("drop", request, context) }
        admin.post("dead/requeue") { request, context in try await requeue(request, context) }
        admin.post("dead/drop") { request, context in try await drop(request, context) }
    }

    // MARK: - Reading

    private struct Listing: Encodable {
        /// The oldest first.
        var dead: [DeadLetter] = []
        /// The `cursor` of the next request; nil at the end.
        var next: String?
        /// Number of all dead jobs.
        var total = 0
        /// Number of those that were deleted to make room, or after their time.
        var deleted = 0
    }

    private func list(_ request: Request, _ context: ServerContext) async throws -> Response {
        let query = try QueryArguments(request, allowed: "limit", "batch", "error", "cursor")
        let limit = try query.number("limit", Self.limits) ?? 100
        let start = try query.number("cursor", Self.cursors) ?? 0
        let (batch, error) = (query.text("batch"), query.text("error"))
        let place = try requests.enter()
        let queue = try await cluster.queue()
        var (listing, offset, bytes) = (Listing(), start, 0)
        var hasMore = true
        pages: while hasMore {
            let page = try await queue.deadLetters(offset: offset, limit: 50)
            hasMore = !page.isEmpty
            for letter in page {
                let isFull = listing.dead.count == limit || bytes >= Self.listedBytes
                if isFull || offset - start >= Self.examined { break pages }
                offset += 1
                guard letter.matches(batch: batch, error: error) else { continue }
                listing.dead.append(letter)
                bytes += letter.content.job.utf8.count
            }
        }
        if hasMore { listing.next = String(offset) }
        listing.total = try await queue.deadCount()
        listing.deleted = try await queue.droppedDeadLetters()
        let json = ByteBuffer(bytes: context.shown(try APIResponse.data(listing)))
        return APIResponse.json(large: json, holding: place, context)
    }

    private func show(_ id: String, _ request: Request, _ context: ServerContext) async throws -> Response {
        let batch = try QueryArguments(request, allowed: "batch").text("batch")
        let place = try requests.enter()
        let letters = try await Self.namingBatches {
            try await DeadJobs(try await cluster.queue()).letters(of: id, batch: batch)
        }
        if letters.isEmpty {
            throw APIError(.notFound, "No dead job has the id \(FieldProblem.quoted(id)). \(Self.remedy)")
        }
        var bytes = ByteBuffer(string: #"{"dead":["#)
        for (index, letter) in letters.enumerated() {
            if index > 0 { bytes.writeString(",") }
            bytes.writeBytes(context.shown(try letter.describedJSON()))
        }
        bytes.writeString("]}")
        return APIResponse.json(large: bytes, holding: place, context)
    }

    private static let remedy = "GET /api/v1/dead lists the dead jobs."

    /// Maximum number of names or ids in a message.
    private static let shown = 20

    /// Runs the body, and names the batches if several have an id.
    private static func namingBatches<Value>(_ body: () async throws -> Value) async throws -> Value {
        do {
            return try await body()
        } catch let error as DeadJobs.Ambiguity {
            let names = error.batches.prefix(shown).map { $0.isEmpty ? "no batch" : $0 }.joined(separator: ", ")
            let more = error.batches.count > shown ? " and \(error.batches.count - shown) more" : ""
            throw APIError(
                .conflict,
                "\(error.batches.count) batches have a dead job with the id \(FieldProblem.quoted(error.id)): "
                    + "\(names)\(more). Name one of them: ?batch=NAME when reading, \"BATCH/ID\" among ids."
            )
        }
    }

    // MARK: - Changing

    private struct Requeued: Encodable {
        let requeued: Int
        /// Number of jobs that were selected.
        let selected: Int
        /// Ids that no dead job has.
        let missing: [String]
    }

    private struct Dropped: Encodable {
        let dropped: Int
        /// Ids that no dead job has.
        let missing: [String]
    }

    private func requeue(_ request: Request, _ context: ServerContext) async throws -> Response {
        let change = try await change(request) { try await $0.requeue($1) }
        context.logger.notice("dead jobs were requeued", metadata: context.change(["count": "\(change.done)"]))
        if change.done == 0 {
            throw APIError(
                .conflict,
                "None of the \(change.found) selected dead jobs can be requeued: they are invalid, no longer dead, or "
                    + "longer than 1 MiB. GET /api/v1/dead/ID has the reason and the job, to be submitted again in "
                    + "another form."
            )
        }
        return try APIResponse.json(
            Requeued(requeued: change.done, selected: change.found, missing: change.missing)
        )
    }

    private func drop(_ request: Request, _ context: ServerContext) async throws -> Response {
        let change = try await change(request) { try await $0.drop($1) }
        context.logger.notice("dead jobs were dropped", metadata: context.change(["count": "\(change.done)"]))
        return try APIResponse.json(Dropped(dropped: change.done, missing: change.missing))
    }

    /// Runs the body on the jobs that a request selects.
    ///
    /// - Throws: `APIError` 404 if it selects none.
    private func change(
        _ request: Request,
        _ body: (ShardedQueue, [DeadLetter]) async throws -> Int
    ) async throws -> DeadJobs.Change {
        _ = try QueryArguments(request)
        // Before the body, which is in memory until it has been read.
        let place = try requests.enter()
        defer { withExtendedLifetime(place) {} }
        let choice = try await request.decoded(as: DeadJobChoice.self)
        let queue = try await cluster.queue()
        let change = try await Self.namingBatches {
            try await choice.change(queue) { try await body(queue, $0) }
        }
        if change.found == 0 { throw APIError(.notFound, "\(Self.nothing(choice)) \(Self.remedy)") }
        return change
    }

    private static func nothing(_ choice: DeadJobChoice) -> String {
        switch choice {
        case .ids(let ids):
            let names = ids.prefix(shown).map(FieldProblem.quoted).joined(separator: ", ")
            let more = ids.count > shown ? " and \(ids.count - shown) more" : ""
            return "No dead job has the \(ids.count == 1 ? "id" : "ids") \(names)\(more)."
        case .batch(""): return "No dead job is without a batch."
        case .batch(let batch): return "No dead job is of the batch \(FieldProblem.quoted(batch))."
        case .error(let error): return "No dead job has the error \(FieldProblem.quoted(error))."
        case .all: return "There are no dead jobs."
        }
    }
}
