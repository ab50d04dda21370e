internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import MegatonCluster
internal import MegatonCore
internal import MegatonRedis
internal import NIOCore

/// Routes of single jobs.
struct JobRoutes: Sendable {
    let cluster: ClusterConnection
    /// Bound on the time of the body of a job.
    var pace = UploadPace()
    private let pushes = RequestLimit(Self.maximumPushes, of: "requests that push a job")

    /// Maximum number of jobs that are received at a time: each has at most 1 MiB, which a client may send slowly.
    private static let maximumPushes = 256

    func add(
        to read: RouterGroup<ServerContext>,
        submit: RouterGroup<ServerContext>,
        admin: RouterGroup<ServerContext>
    ) {
        submit.post("jobs") { (request, context) async throws -> Response in try await push(request, context) }
        read.get("jobs/:id") { (request, context) async throws -> Response in try await show(request, context) }
    }

    private struct Pushed: Encodable {
        let id: String
    }

    private func push(_ request: Request, _ context: ServerContext) async throws -> Response {
        try request.require(contentType: "application/json")
        _ = try QueryArguments(request)
        // Before the body, which is in memory until it has been read.
        let place = try pushes.enter()
        defer { withExtendedLifetime(place) {} }
        var job = try Self.job(try await request.content(atMost: Job.maximumSize, pace))
        if job.traceparent == nil, let traceparent = request.traceparent {
            var traced = job
            traced.traceparent = traceparent
            // Proxies add the field, too: a job that has no room for it stays as it is.
            if traced.json().count <= Job.maximumSize { job = traced }
        }
        // Its id and other notation may need more bytes than the client's: no worker would read it.
        guard job.json().count <= Job.maximumSize else {
            throw APIError(.contentTooLarge, "The job with its id has more than \(Job.maximumSize) bytes.")
        }
        let queue = try await cluster.queue(isFresh: true)
        // Shard 0 has the public lists of clients: it compares ids and idempotency keys with those of other programs.
        do throws(RedisError) {
            let mayPushToAll = context.identity?.allows(.admin) == true
            try await queue.first.push(job, owner: context.identity?.owner, mayPushToAll: mayPushToAll)
        } catch {
            guard let batch = job.batch else { throw error }
            switch error.code {
            case .batchClosed: throw APIError.endedBatch(batch)
            case .otherOwner: throw APIError.otherOwner(of: batch)
            default: throw error
            }
        }
        return try APIResponse.json(Pushed(id: job.id ?? ""), .accepted)
    }

    /// The job of a request, with an id.
    private static func job(_ json: Data) throws(APIError) -> Job {
        guard Pack.line(json, id: "pack") == nil else {
            throw APIError(
                .badRequest,
                "The body is a pack, which has several jobs: send it as a line to /api/v1/batches."
            )
        }
        do throws(JobError) {
            var job = try Job(json: json)
            if job.id == nil { job.id = UUID().uuidString.lowercased() }
            // The scope of a requeued job's id: a client could take the ids of another client's batch with it.
            job.requeuedFrom = nil
            if let problem = job.imageNameProblem { throw JobError(problem.description) }
            return job
        } catch {
            throw APIError(.badRequest, FieldProblem.sentence("The body is no job: \(error.message)"))
        }
    }

    private struct States: Encodable {
        let states: [JobState]
    }

    private func show(_ request: Request, _ context: ServerContext) async throws -> Response {
        let id = try context.segment("id")
        let arguments = try QueryArguments(request, allowed: "batch")
        let batch = arguments.text("batch")
        let names: [(String, String?)] = [("id", id), ("batch", batch)]
        for (name, text) in names {
            guard let text, !Job.isName(text) else { continue }
            throw APIError.noName(name)
        }
        let queue = try await cluster.queue()
        let states = try await queue.states(of: JobKey(batch: batch, id: id))
        if states.isEmpty { throw try await missing(id, batch, queue) }
        let json = try APIResponse.data(States(states: states))
        return APIResponse.json(bytes: ByteBuffer(bytes: context.shown(json)))
    }

    /// A job that was pushed and not read is not known by its id, and most of those that have ended are not either.
    private func missing(_ id: String, _ batch: String?, _ queue: ShardedQueue) async throws -> APIError {
        let status = try await Inspector(queue: queue, caches: []).status(skipsDamage: true)
        let unread = status.intake + status.staged
        let waiting =
            switch unread {
            case 0: "nor does any job wait to be read"
            case 1: "1 job waits to be read, and it may be among them"
            default: "\(unread) jobs wait to be read, and it may be among them"
            }
        let scope = batch.map { " of the batch \($0)" } ?? ""
        return APIError(.notFound, "No job\(scope) has the id \(id) now, \(waiting). \(Self.outcomePlaces(batch))")
    }

    /// The places of the outcomes of jobs that have ended, and how to get that of the next one.
    private static func outcomePlaces(_ batch: String?) -> String {
        if let batch {
            return "A job that has ended is known by its id only if it is dead, or while its batch has not ended. Its "
                + "outcome is in the list or at the webhook that its \"reply\" names, and "
                + "/api/v1/batches/\(batch)/outcomes has those that the batch keeps."
        }
        return "A job without a batch that has ended is known by its id only if it is dead, or for its keyTTL (a day "
            + "by default) if its key was its id. Otherwise its outcome is in the list or at the webhook that its "
            + "\"reply\" names, and nowhere without one. Add ?batch=NAME if the job has a batch."
    }
}
