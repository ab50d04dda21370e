internal import Foundation
internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
import Synchronization

/// Has the workers of a queue make renditions, for the requests of this process that wait for them.
///
/// Each decision has one owner:
/// - `RenditionService` decides whether a request needs a job, from the cache, and what it answers after the job.
/// - `RenditionJob` decides which requests are for the same job, in all processes.
/// - This type decides when a job is pushed, for how long a request waits, and when the queue cannot be asked.
/// - The queue decides whether a pushed job is run; workers decide how it ends.
///
/// The outcomes are read from what the queue remembers of idempotency keys, for all images in one round trip while
/// there are any. The lists of `JobReply` have no outcome for the second of two processes: a duplicate with a reply
/// ends at once, while the first job still runs. And they would need rights of their own in Redis.
///
/// One loop makes all requests to Redis. A client that leaves does not take its job with it. The number of requests
/// that wait is limited by the caller.
final class RenditionJobs: Sendable {
    private typealias Answer = Promise<Result<JobOutcome?, RenditionError>>

    /// A request that waits.
    private struct Waiter: Sendable {
        let answer: Answer
        let end: ContinuousClock.Instant
    }

    /// A job, and the requests that wait for it: none if it is to be pushed all the same.
    private struct Image: Sendable {
        let job: RenditionJob
        /// When the job is pushed again if requests that came later still wait: its outcome may be forgotten by then.
        var end: ContinuousClock.Instant
        /// Whether the queue has the job, from this process or another one.
        var isPushed = false
        var waiters: [Int: Waiter] = [:]
    }

    private struct State {
        /// By the id of the job.
        var images: [String: Image] = [:]
        var lastWaiter = 0
        var isClosed = false
        /// Whether the log has that the queue cannot be asked, since its last answer.
        var hasReported = false
        /// When a worker was last known to live.
        var sawWorker: ContinuousClock.Instant?
    }

    private let queue: JobQueue
    private let limit: Duration
    private let logger: Logger
    private let state = Mutex(State())
    private let arrived = AsyncSignal()

    /// How long a request waits. A server that ends gives its requests 25 s.
    static let waitLimit: Duration = .seconds(20)
    /// Pause between two looks at the outcomes while requests wait.
    private static let interval: Duration = .milliseconds(25)
    /// Pause between two looks at the heartbeats of the workers while they live.
    private static let heartbeatInterval: Duration = .seconds(1)
    /// Time limit of a command.
    private static let redisLimit: Duration = .seconds(2)
    /// Maximum number of images in one round trip.
    private static let imagesAtOnce = 256
    /// Images beyond which no job is pushed that no request waits for.
    private static let maximumUnawaited = 1024

    /// - Parameters:
    ///   - queue: shard 0, which has the public lists.
    ///   - limit: how long a request waits.
    init(_ queue: JobQueue, limit: Duration = RenditionJobs.waitLimit, logger: Logger) {
        self.queue = queue
        self.limit = limit
        self.logger = logger
    }

    // MARK: - Requests

    /// Waits for the end of a job, which is pushed unless the queue has it.
    ///
    /// - Returns: the outcome of a job that has made its rendition; nil if it has ended and its outcome is not known.
    /// - Throws: `.failed` with the error of the job, or if the task is cancelled.
    func outcome(of job: RenditionJob) async throws(RenditionError) -> JobOutcome? {
        let answer = Answer()
        guard let number = join(job, answer) else { throw Self.closed }
        return try await withTaskCancellationHandler {
            await answer.value
        } onCancel: {
            leave(job.id, number)
        }.get()
    }

    /// Pushes a job that no request waits for, unless the queue has it, or many jobs wait to be pushed.
    func request(_ job: RenditionJob) {
        let end = ContinuousClock.now + limit
        state.withLock { state in
            if state.isClosed || state.images[job.id] != nil { return }
            if state.images.count < Self.maximumUnawaited { state.images[job.id] = Image(job: job, end: end) }
        }
        arrived.signal()
    }

    /// - Returns: the number of the request; nil if this object was closed.
    private func join(_ job: RenditionJob, _ answer: Answer) -> Int? {
        let end = ContinuousClock.now + limit
        let number = state.withLock { state -> Int? in
            if state.isClosed { return nil }
            let number = state.lastWaiter + 1
            state.lastWaiter = number
            var image = state.images[job.id] ?? Image(job: job, end: end)
            image.waiters[number] = Waiter(answer: answer, end: end)
            state.images[job.id] = image
            return number
        }
        arrived.signal()
        return number
    }

    private func leave(_ id: String, _ number: Int) {
        let waiter = state.withLock { $0.images[id]?.waiters.removeValue(forKey: number) }
        waiter?.answer.resolve(.failure(.failed(.cancelled)))
    }

    // MARK: - Jobs

    /// Pushes jobs and reads their outcomes until the task is cancelled. Requests fail from then on.
    func run() async {
        await repeating {
            if state.withLock({ $0.images.isEmpty }) { await arrived.wait() }
            await step()
            return Self.interval
        }
        let answers = state.withLock { state -> [Answer] in
            defer { state.images = [:] }
            state.isClosed = true
            return state.images.values.flatMap { $0.waiters.values.map(\.answer) }
        }
        for answer in answers { answer.resolve(.failure(Self.closed)) }
    }

    private func step() async {
        let images = state.withLock { Array($0.images.values) }
        if images.isEmpty { return }
        do throws(RedisError) {
            for start in stride(from: 0, to: images.count, by: Self.imagesAtOnce) {
                try await look(at: Array(images[start..<min(images.count, start + Self.imagesAtOnce)]))
            }
            state.withLock { $0.hasReported = false }
        } catch {
            // No further round trip: each may last for the time limit of a command.
            report(error)
            // Those that were pushed before may still end in time.
            let fault = error.code == .outOfMemory ? "is full" : "cannot be asked"
            let reason = "The queue of the workers \(fault); try again after the time of Retry-After."
            for image in images { end(image.job.id, onlyNew: true, .failure(.unavailable(reason))) }
        }
        expire()
    }

    private func report(_ error: RedisError) {
        let isNews = state.withLock { state -> Bool in
            defer { state.hasReported = true }
            return !state.hasReported
        }
        logger.log(
            // One line for each outage.
            level: isNews && !Task.isCancelled ? .warning : .debug,
            "the queue cannot be asked for images; requests for those that the cache lacks are refused",
            metadata: [LogKey.error: "\(error)"]
        )
    }

    private func look(at images: [Image]) async throws(RedisError) {
        let found = try await queue.rememberedOutcomes(
            of: images.map(\.job.id),
            timeout: Self.redisLimit
        )
        var standstill = found.standstill
        if standstill == nil, try await workersAreSilent() { standstill = .silentWorkers }
        // A queue that drains runs the jobs that it has.
        let isIdle = standstill == .withoutWorkers || standstill == .paused
        var new: [RenditionJob] = []
        for (image, outcome) in zip(images, found.outcomes) {
            switch outcome {
            case .ended(let json): end(image.job.id, Self.result(json))
            // No job that the queue has is done either, and its requests would wait in vain. Those that were pushed
            // before the queue was paused, or the last worker signed off, wait on: that may end soon.
            case .open where standstill == .silentWorkers, .open where isIdle && !image.isPushed:
                new.append(image.job)
            case .open: markPushed(image.job.id)
            case nil: if !image.isPushed || standstill == .silentWorkers { new.append(image.job) }
            }
        }
        if new.isEmpty { return }
        if let standstill {
            for job in new { end(job.id, .failure(.unavailable(Self.sentence(standstill)))) }
            return
        }
        try await queue.push(new.map(\.json), as: .high, timeout: Self.redisLimit)
        for job in new { markPushed(job.id) }
    }

    /// Whether all workers that are signed on have missed three heartbeats.
    private func workersAreSilent() async throws(RedisError) -> Bool {
        let now = ContinuousClock.now
        let isKnown = state.withLock { state in
            state.sawWorker.map { $0.duration(to: now) < Self.heartbeatInterval } ?? false
        }
        if isKnown { return false }
        let isLiving = try await queue.hasLivingWorker(timeout: Self.redisLimit)
        state.withLock { $0.sawWorker = isLiving ? now : nil }
        return !isLiving
    }

    private func markPushed(_ id: String) { state.withLock { $0.images[id]?.isPushed = true } }

    /// Answers all requests for an image.
    ///
    /// - Parameter onlyNew: whether only if its job was not pushed yet.
    private func end(_ id: String, onlyNew: Bool = false, _ result: Result<JobOutcome?, RenditionError>) {
        let image = state.withLock { state -> Image? in
            if onlyNew, state.images[id]?.isPushed == true { return nil }
            return state.images.removeValue(forKey: id)
        }
        for waiter in image?.waiters.values.map(\.answer) ?? [] { waiter.resolve(result) }
    }

    /// Answers requests that have waited for too long, and forgets jobs that none waits for.
    private func expire() {
        let now = ContinuousClock.now
        let late = state.withLock { state -> [Answer] in
            var late: [Answer] = []
            for (id, present) in state.images {
                var image = present
                for (number, waiter) in present.waiters where waiter.end <= now {
                    image.waiters[number] = nil
                    late.append(waiter.answer)
                }
                if image.end <= now {
                    image.isPushed = image.waiters.isEmpty
                    image.end = image.waiters.values.map(\.end).max() ?? now
                }
                state.images[id] = image.isPushed && image.waiters.isEmpty ? nil : image
            }
            return late
        }
        for answer in late { answer.resolve(.failure(.overdue)) }
    }

    // MARK: - Results

    private static func result(_ json: Data?) -> Result<JobOutcome?, RenditionError> {
        // An outcome that cannot be read is one of another version: the cache shows whether there is a rendition.
        guard let json, let outcome = try? JobOutcome(json: json) else {
            return .success(nil)
        }
        guard let failure = outcome.error else { return .success(outcome) }
        // Some codes, such as `poison`, are those of jobs only.
        let code = ImagePipeline.Error.Code(rawValue: failure.code) ?? .renderFailed
        return .failure(.failed(ImagePipeline.Error(code, failure.message, isRetryable: failure.retryable)))
    }

    private static func sentence(_ standstill: JobQueue.Standstill) -> String {
        switch standstill {
        case .paused: "The queue of the workers is paused, until an operator resumes it."
        case .draining: "The queue of the workers takes no new jobs, until an operator resumes it."
        case .withoutWorkers: "No worker is signed on to the queue."
        case .silentWorkers: "No worker of the queue has sent a heartbeat lately."
        }
    }

    private static let closed = RenditionError.unavailable("The server is shutting down.")
}
