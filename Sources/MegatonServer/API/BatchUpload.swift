internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import MegatonCluster
internal import MegatonCore
internal import MegatonRedis
internal import NIOCore
internal import ServiceLifecycle

/// Submits a batch whose jobs arrive as lines of JSON in the body of a request.
///
/// Jobs are pushed as they arrive, in chunks, and the body is read no faster than Redis takes them. If the request
/// fails, by an invalid line or because its client has gone or is too slow, the batch is cancelled if it has begun: a
/// part of it would never end.
struct BatchUpload: Sendable {
    let queue: ShardedQueue
    let name: String
    let policy: BatchPolicy
    /// The owner of the batch; nil if it is the operator.
    let owner: String?
    /// The pace of each upload, at its beginning.
    let pace: UploadPace
    let logger: Logger
    /// The span of the client, for jobs that have none.
    var traceparent: String?

    /// Maximum number of bytes of acknowledged jobs that are kept for a Redis that loses them. Less than a command
    /// keeps, as the server has several uploads at a time.
    private static let keptBytes = 8 * 1024 * 1024

    /// Time for which a push is retried while Redis is unreachable or full. A client that has no answer for longer
    /// takes the server for one that hangs, and each upload that waits holds a place.
    private static let retryTime: Duration = .seconds(6)

    /// Time after the beginning of a shutdown at which an upload that goes on is ended: less than requests have in all,
    /// so that its batch can be cancelled and its client gets an answer.
    private static let shutdownTime: Duration = .seconds(18)

    /// - Parameter length: number of bytes of the body; nil if the client has not announced it.
    /// - Returns: number of jobs that Redis has.
    func run(_ body: RequestBody, length: Int?) async throws -> Int {
        do throws(RedisError) {
            // Before the first job is read: a server that evicts keys must not have one.
            for server in queue.shards.servers { try await EvictionPolicyCheck.run(server) }
        } catch {
            throw Self.refusal(error, logger)
        }
        let submitter = ShardedSubmitter(
            queue: queue,
            batch: name,
            policy: policy,
            keptLimit: Self.keptBytes,
            owner: owner,
            retryTime: Self.retryTime,
            stopsWaiting: { Task.isShuttingDownGracefully },
            onDelay: { [logger] error in
                logger.warning("a push waits for Redis", metadata: ["error": "\(error)"])
            },
            onRestore: { [logger, name] count in
                logger.warning(
                    "Redis has returned to an earlier state; jobs that it has lost are submitted again",
                    metadata: ["batch": "\(name)", "jobs": "\(count)"]
                )
            }
        )
        do {
            let added = try await pushInTime(body, length: length, to: submitter)
            if added == 0 {
                throw UploadFailure(
                    .badRequest,
                    "The request's body has no job.",
                    remedy: "write one on each line, and "
                )
            }
            try await submitter.close()
            let submitted = await submitter.submitted
            guard submitted >= added else {
                throw APIError(
                    .conflict,
                    "The batch \(name) was cancelled while its jobs were submitted: it has \(submitted) of \(added)."
                )
            }
            return submitted
        } catch {
            let rest = await abandon(submitter)
            switch error {
            case let error as RedisError where error.code == .batchExists: throw APIError.existingBatch(name)
            case let error as RedisError:
                guard let reason = Self.reason(error) else { throw error }
                throw unavailable(reason, rest, accepted: await submitter.submitted)
            case let failure as UploadFailure: throw failure.response(batch: name, rest)
            case let error as APIError where error.status == .contentTooLarge:
                throw UploadFailure(.contentTooLarge, error.detail).response(batch: name, rest)
            default: throw error
            }
        }
    }

    // MARK: - Outages

    private static let nothingSubmitted =
        "Nothing was submitted; send the request again after the time of Retry-After."

    /// The answer to a list of which no job was read, because of an error of Redis.
    static func refusal(_ error: RedisError, _ logger: Logger) -> APIError {
        guard let reason = Self.reason(error) else { return APIError(error) }
        // The answer has no address.
        logger.warning("no jobs can be submitted", metadata: ["error": "\(error)"])
        return .unavailable("\(reason) \(nothingSubmitted)")
    }

    /// A sentence about an error that ends by itself; nil for another error.
    private static func reason(_ error: RedisError) -> String? {
        switch error.code {
        case .outOfMemory: return "The queue's Redis is full and takes no more jobs."
        // The number of shards is being changed, for the most part.
        case .shardMismatch: return error.message
        case .closed: return "The server is shutting down."
        default: return error.isTransient ? "The queue's Redis is unreachable or busy (\(error.code))." : nil
        }
    }

    /// The answer to a list that Redis has not taken to its end. It names the batch: the server has chosen the name if
    /// the client has not.
    ///
    /// - Parameters:
    ///   - reason: a sentence.
    ///   - rest: the rest of the batch in Redis.
    ///   - accepted: number of jobs that Redis has acknowledged.
    private func unavailable(_ reason: String, _ rest: UploadFailure.Rest, accepted: Int) -> APIError {
        let part = "Redis has acknowledged \(accepted) \(accepted == 1 ? "job" : "jobs") of the batch \(name)"
        let text =
            switch rest {
            case .nothing: Self.nothingSubmitted
            case .cancelled:
                "\(part), which was cancelled; after the time of Retry-After, submit all jobs again under another name."
            case .unknown:
                "\(part), which may have more and could not be cancelled. After the time of Retry-After, submit all "
                    + "jobs again under the same name: if the answer is 409, GET /api/v1/batches/\(name) shows how "
                    + "many jobs the batch has. With all of them it is complete; otherwise cancel it, and submit all "
                    + "jobs again under another name."
            }
        return .unavailable("\(reason) \(text)")
    }

    // MARK: - Jobs

    /// The end of an upload.
    private enum End {
        /// With the number of jobs that were added.
        case pushed(Int)
        case tooSlow
        case shutDown
    }

    /// Pushes the jobs of a body, until it ends, stalls, or the server ends.
    private func pushInTime(_ body: RequestBody, length: Int?, to submitter: ShardedSubmitter) async throws -> Int {
        let clock = UploadClock(pace)
        let end = try await withThrowingTaskGroup(of: End.self) { group in
            group.addTask { .pushed(try await push(body, length: length, to: submitter, clock)) }
            group.addTask {
                await clock.waitUntilTooSlow()
                return .tooSlow
            }
            group.addTask {
                try await gracefulShutdown()
                try await Task.sleep(for: Self.shutdownTime)
                return .shutDown
            }
            defer { group.cancelAll() }
            return try await group.next() ?? .shutDown
        }
        switch end {
        case .pushed(let added): return added
        case .tooSlow: throw Self.tooSlow(pace)
        case .shutDown:
            throw UploadFailure(
                .serviceUnavailable,
                "The server is shutting down, and the request's body has not ended.",
                headers: [.connection: "close", .retryAfter: "1"]
            )
        }
    }

    /// - Returns: number of jobs that were added.
    private func push(
        _ body: RequestBody,
        length: Int?,
        to submitter: ShardedSubmitter,
        _ clock: UploadClock
    ) async throws -> Int {
        var lines = JobLines()
        var (added, received) = (0, 0)
        var iterator = body.makeAsyncIterator()
        while let buffer = try await Self.next(&iterator, clock) {
            received += buffer.readableBytes
            for line in try lines.add(buffer) { added += try await push(line, to: submitter) }
        }
        // A body that is no longer read has no end.
        try Task.checkCancellation()
        // The end of the connection looks like that of the body.
        if let length, received < length { throw Self.interrupted }
        if let line = try lines.finish() { added += try await push(line, to: submitter) }
        return added
    }

    private static func next(
        _ iterator: inout RequestBody.AsyncIterator,
        _ clock: UploadClock
    ) async throws -> ByteBuffer? {
        do {
            return try await clock.next(of: &iterator)
        } catch let error as CancellationError {
            throw error
        } catch {
            throw interrupted
        }
    }

    private static func tooSlow(_ pace: UploadPace) -> UploadFailure {
        UploadFailure(
            .requestTimeout,
            pace.refusal,
            remedy: "have the whole list at hand, and ",
            headers: [.connection: "close"]
        )
    }

    private static let interrupted = UploadFailure(
        .badRequest,
        "The request ended before its body was complete."
    )

    /// - Returns: number of jobs of the line, which is more than 1 for a pack.
    private func push(_ line: JobLines.Line, to submitter: ShardedSubmitter) async throws -> Int {
        guard let pack = Pack.line(line.json, id: "\(name.prefix(100)).\(line.number)") else {
            let job: Job
            do throws(JobError) {
                job = try Job(json: line.json)
            } catch {
                throw invalid(line, error.message)
            }
            try check(job, line)
            let (traced, json) = withTrace(job, line.json)
            try await submitter.add(json, job: traced, hasUniqueID: job.id == nil)
            return 1
        }
        // Each source becomes a job of its own, as in a list of `megaton submit`: equal ones are then compared.
        if let refused = pack.refused.first { throw invalid(line, refused.message) }
        for job in pack.jobs {
            try check(job, line)
            let (traced, json) = withTrace(job, job.json())
            try await submitter.add(json, job: traced, hasUniqueID: pack.hasMadeIDs)
        }
        return pack.jobs.count
    }

    /// A job with the client's span, if it has none, and its JSON. A job that has no room for it stays as it is.
    private func withTrace(_ job: Job, _ json: Data) -> (Job, Data) {
        guard let traceparent, job.traceparent == nil else { return (job, json) }
        var traced = job
        traced.traceparent = traceparent
        let longer = traced.json()
        return longer.count <= Job.maximumSize ? (traced, longer) : (job, json)
    }

    private func check(_ job: Job, _ line: JobLines.Line) throws(UploadFailure) {
        if let other = job.batch, other != name {
            throw invalid(line, "batch is \"\(other)\", but the job is submitted to the batch \(name)")
        }
        var scoped = job
        scoped.batch = name
        if let problem = scoped.imageNameProblem { throw invalid(line, problem.description) }
    }

    private func invalid(_ line: JobLines.Line, _ problem: String) -> UploadFailure {
        UploadFailure(
            .badRequest,
            FieldProblem.sentence("Line \(line.number) is no job: \(problem)"),
            remedy: "correct the line, and "
        )
    }

    /// Cancels a batch of which only a part was pushed. A batch of this name that another client has submitted is left
    /// alone.
    ///
    /// - Returns: the rest of it in Redis.
    private func abandon(_ submitter: ShardedSubmitter) async -> UploadFailure.Rest {
        do {
            return try await submitter.cancel() ? .cancelled : .nothing
        } catch {
            logger.warning(
                "the batch could not be cancelled",
                metadata: ["batch": "\(name)", "error": "\(error)"]
            )
            return .unknown
        }
    }
}

/// The reason for which a list of jobs is not taken to its end.
private struct UploadFailure: Error {
    /// The part of the batch that Redis has after the failure.
    enum Rest {
        /// No job was pushed, and the name is free or that of another client's batch.
        case nothing
        /// The batch had begun, and was cancelled. With several shards it begins before its first job is pushed.
        case cancelled
        /// Some jobs may have been pushed, and Redis did not answer when the batch was to be cancelled.
        case unknown
    }

    let status: HTTPResponse.Status
    /// A sentence.
    let reason: String
    /// The beginning of the advice, if there is more to do than to submit the jobs again.
    let remedy: String
    let headers: HTTPFields

    init(_ status: HTTPResponse.Status, _ reason: String, remedy: String = "", headers: HTTPFields = [:]) {
        (self.status, self.reason, self.remedy, self.headers) = (status, reason, remedy, headers)
    }

    func response(batch: String, _ rest: Rest) -> APIError {
        let event =
            switch rest {
            // Another client may have a batch of this name.
            case .nothing: "No job of the request was submitted, and nothing of it remains"
            case .cancelled: "The batch \(batch) was cancelled"
            case .unknown: "The batch \(batch) may have some of the jobs, and could not be cancelled"
            }
        let place = rest == .nothing ? "" : " under another name"
        return APIError(status, "\(reason) \(event); \(remedy)submit all jobs again\(place).", headers: headers)
    }
}
