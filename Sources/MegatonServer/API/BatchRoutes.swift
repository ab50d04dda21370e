internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import MegatonCluster
internal import MegatonRedis
internal import NIOCore

/// Routes of batches: submission, counters, closing and cancellation. ``OutcomeRoutes`` has those of their outcomes.
struct BatchRoutes: Sendable {
    let cluster: ClusterConnection
    private let pace: UploadPace
    private let uploads = RequestLimit(Self.maximumUploads, of: "submissions")

    /// Maximum number of submissions at a time: each keeps some megabytes of jobs.
    static let maximumUploads = 32
    /// Maximum number of batches in one list.
    static let maximumListed = 1000
    static let defaultListed = 50

    /// Time after the response to an upload that was too slow until its connection is closed. The rest of the body is
    /// read meanwhile: bytes that are left unread would make the client lose the response.
    private static let closeDelay: TimeAmount = .seconds(1)

    /// - Parameter pace: bound on the time of an upload.
    init(cluster: ClusterConnection, pace: UploadPace = UploadPace()) {
        self.cluster = cluster
        self.pace = pace
    }

    func add(
        to read: RouterGroup<ServerContext>,
        submit: RouterGroup<ServerContext>,
        admin: RouterGroup<ServerContext>
    ) {
        submit.post("batches") { (request, context) async throws -> Response in
            try await self.submit(request, context)
        }
        submit.post("batches/:name/cancel") { (request, context) async throws -> Response in
            try await cancel(request, context)
        }
        submit.post("batches/:name/close") { (request, context) async throws -> Response in
            try await close(request, context)
        }
        read.get("batches") { (request, _) async throws -> Response in try await list(request) }
        read.get("batches/:name") { (request, context) async throws -> Response in
            try await show(request, context)
        }
    }

    /// The name of the batch in the path of a request.
    static func name(_ context: ServerContext) throws(APIError) -> String {
        try checked(try context.segment("name"))
    }

    private static func checked(_ name: String) throws(APIError) -> String {
        guard Job.isName(name) else { throw .noName("The batch's name") }
        return name
    }

    // MARK: - Submission

    private struct Submitted: Encodable {
        let batch: String
        let submitted: Int
    }

    private func submit(_ request: Request, _ context: ServerContext) async throws -> Response {
        try request.require(contentType: "application/x-ndjson", "application/jsonl")
        let arguments = try QueryArguments(request, allowed: "name", "weight", "deduplicates")
        let name = try Self.checked(arguments.text("name") ?? ProcessIdentity.batch("api"))
        let policy = BatchPolicy(
            keepsLedger: true,
            deduplicates: try arguments.truth("deduplicates") ?? false,
            weight: try arguments.number("weight", 1...BatchPolicy.maximumWeight) ?? 1
        )
        let place = try uploads.enter()
        defer { withExtendedLifetime(place) {} }
        let queue: ShardedQueue
        do throws(RedisError) {
            queue = try await cluster.queue(isFresh: true)
        } catch {
            throw BatchUpload.refusal(error, context.logger)
        }
        let upload = BatchUpload(
            queue: queue,
            name: name,
            policy: policy,
            owner: context.identity?.owner,
            pace: pace,
            logger: context.logger,
            traceparent: request.traceparent
        )
        let count: Int
        do {
            count = try await upload.run(
                request.body,
                length: request.headers[.contentLength].flatMap { Int($0) }
            )
        } catch let error as APIError where error.status == .requestTimeout {
            let channel = context.channel
            channel.eventLoop.scheduleTask(in: Self.closeDelay) { channel.close(mode: .all, promise: nil) }
            throw error
        }
        return try APIResponse.json(
            Submitted(batch: name, submitted: count),
            .created,
            headers: [.location: "/api/v1/batches/\(name)"]
        )
    }

    // MARK: - Counters

    private struct List: Encodable {
        /// A batch that cannot be read, as another program has written its key.
        struct Damaged: Encodable {
            let batch: String
            let key: String
        }

        let batches: [BatchReport]
        let damaged: [Damaged]?
        /// Whether there are more batches than the limit allows.
        let hasMore: Bool
    }

    private func list(_ request: Request) async throws -> Response {
        let arguments = try QueryArguments(request, allowed: "limit")
        let limit = try arguments.number("limit", 1...Self.maximumListed) ?? Self.defaultListed
        let batches = try await cluster.queue().batches(limit: limit + 1)
        let shown = batches.prefix(limit)
        let damaged = shown.compactMap { batch in
            batch.damagedKey.map { List.Damaged(batch: batch.name, key: $0) }
        }
        return try APIResponse.json(
            List(
                batches: shown.filter { $0.damagedKey == nil }.map { BatchReport($0) },
                damaged: damaged.isEmpty ? nil : damaged,
                hasMore: batches.count > limit
            )
        )
    }

    private func show(_ request: Request, _ context: ServerContext) async throws -> Response {
        let name = try Self.name(context)
        _ = try QueryArguments(request)
        return try APIResponse.json(try await report(name, try await cluster.queue()))
    }

    private func report(_ name: String, _ queue: ShardedQueue) async throws -> BatchReport {
        let counters = try await BatchMonitor(queue: queue, batch: name).counters()
        guard counters.isKnown else { throw APIError.unknownBatch(name) }
        return BatchReport(BatchSummary(name: name, counters: counters))
    }

    // MARK: - Changes

    /// - Throws: an error with the status 403 if the batch is not one of the token's, unless the token has the scope
    ///   `admin`.
    private func checkOwner(of name: String, _ queue: ShardedQueue, _ context: ServerContext) async throws {
        if context.identity?.allows(.admin) == true { return }
        // Shard 0 decides about names, and has the batches of jobs that were pushed one by one.
        let owner = try await queue.first.owner(ofBatch: name)
        if let owner, owner == context.identity?.owner { return }
        throw APIError.otherOwner(of: name)
    }

    private func cancel(_ request: Request, _ context: ServerContext) async throws -> Response {
        let name = try Self.name(context)
        _ = try QueryArguments(request)
        let queue = try await cluster.queue(isFresh: true)
        // Names the batch if there is none.
        _ = try await report(name, queue)
        try await checkOwner(of: name, queue, context)
        try await queue.cancel(batch: name)
        return try APIResponse.json(try await report(name, queue))
    }

    private func close(_ request: Request, _ context: ServerContext) async throws -> Response {
        let name = try Self.name(context)
        let arguments = try QueryArguments(request, allowed: "jobs")
        let expected = try arguments.number("jobs", 0...1_000_000_000_000)
        let queue = try await cluster.queue(isFresh: true)
        _ = try await report(name, queue)
        try await checkOwner(of: name, queue, context)
        try await queue.close(batch: name, expected: expected)
        return try APIResponse.json(try await report(name, queue))
    }
}
