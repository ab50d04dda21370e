internal import Foundation
import Synchronization

/// Renders on its own thread pool: sniff, probe, limits, plan, memory, execute.
final class Renderer: Sendable {
    typealias Error = ImageError

    private let engine: any RenderEngine
    private let limits: RenderLimits
    private let types: Set<AssetType>
    private let threads: ThreadPool
    private let budget: MemoryBudget
    private let running = Mutex<[Int: Running]>([:])
    private let nextID = Atomic(0)

    init(
        engine: any RenderEngine,
        limits: RenderLimits,
        types: Set<AssetType>,
        threads: ThreadPool,
        budget: MemoryBudget = .process
    ) {
        self.engine = engine
        self.limits = limits
        self.types = types
        self.threads = threads
        self.budget = budget
    }

    deinit { threads.stop() }

    /// Work that a render thread does.
    private struct Running {
        let start: ContinuousClock.Instant
        let abandon: @Sendable (any Swift.Error) -> Void
    }

    /// How long the oldest of the current renders has been running. A render far beyond its time limit hangs in a codec
    /// that cannot be interrupted.
    var longestRunning: Duration? {
        let now = ContinuousClock.now
        return running.withLock { $0.values.map { $0.start.duration(to: now) }.max() }
    }

    /// Fails the renders that have been running for longer than this time with `.renderTimedOut`, although their
    /// threads go on: the process is about to end, and their images must not seem to have killed it.
    func abandon(runningLongerThan limit: Duration) {
        let now = ContinuousClock.now
        let hung = running.withLock { $0.values.filter { $0.start.duration(to: now) > limit } }
        for render in hung {
            render.abandon(
                Error(
                    .renderTimedOut,
                    "rendering has not ended after \(Int(limit.inSeconds.rounded())) seconds, as the codec takes "
                        + "longer than its limit (RenderLimits.time) and cannot be interrupted; the process that "
                        + "rendered it ends. Raise the limit for images that are worth the time, or choose less "
                        + "effort, a smaller size or another format."
                )
            )
        }
    }

    /// - Parameters:
    ///   - context: URL, status and media type, for messages.
    ///   - slot: Assigns threads by priority; nil only if the caller alone uses the threads.
    func render(
        _ renditions: [Rendition],
        from data: Data,
        context: String,
        slot: RenderSlot? = nil
    ) async throws(Error) -> [EncodedImage] {
        do throws(Error) {
            for rendition in renditions { try limits.check(rendition) }
        } catch {
            throw error.about(context)
        }
        return try await perform(context, data, slot) { [engine, limits, types] () throws(Error) in
            let type = try types.sniff(data)
            let plan = try RenderPlan(probing: data, type, renditions, engine, limits)
            return (plan, { (deadline) throws(Error) in try engine.execute(plan, data, deadline: deadline) })
        }
    }

    /// Decides whether the first bytes of a source are enough for some renditions.
    func sufficientScans(for renditions: [Rendition]) -> SufficientScans {
        SufficientScans(for: renditions, engine, limits)
    }

    /// Decodes on a render thread. Data for the pipeline's own decoder is admitted by its memory cost first.
    ///
    /// - Parameter slot: As in `render`.
    func decode(
        _ data: Data,
        with decoder: any ImageDecoding,
        context: String,
        slot: RenderSlot? = nil
    ) async throws(Error) -> ImageContainer {
        guard let decoder = decoder as? ImageDecoders.Default else {
            return try await run(context, slot: slot) { _ in
                do {
                    return try decoder.decode(data)
                } catch let error as Error {
                    throw error
                } catch {
                    throw Error(
                        .corruptImage,
                        "\(type(of: decoder)) cannot decode the image: \(error)",
                        underlying: error
                    )
                }
            }
        }
        return try await perform(context, data, slot) { () throws(Error) in
            let plan = try decoder.plan(data)
            return (plan, { (deadline) throws(Error) in try decoder.decode(data, plan, deadline) })
        }
    }

    /// Decodes a preview of the bytes received so far, on a render thread. If no memory is free, there is no preview.
    ///
    /// - Parameters:
    ///   - cancellation: Cancelled when the final image has arrived.
    ///   - decoder: Called on the render thread; if it returns nil, there is no preview.
    func preview(
        of data: Data,
        context: String,
        until cancellation: RenderCancellation,
        by decoder: @escaping @Sendable () -> (any ImageDecoding)?
    ) async throws(Error) -> ImageContainer? {
        try await run(context, until: cancellation) { [budget] deadline in
            guard !deadline.isExpired, let decoder = decoder() else { return nil }
            guard let own = decoder as? ImageDecoders.Default else {
                return decoder.decodePartiallyDownloadedData(data)
            }
            return own.preview(of: data, deadline) { cost, decode throws(Error) in
                guard try budget.tryAcquire(cost) else { return nil }
                defer { budget.release(cost) }
                return try decode()
            }
        }
    }

    /// Runs other work, such as processors and encoders, on a render thread. If the calling task is cancelled before
    /// the work starts, the work never runs.
    ///
    /// - Parameters:
    ///   - cancellation: Stops the work, as does a cancellation of the calling task.
    ///   - slot: As in `render`; nil if the caller already has a render slot.
    ///   - work: Receives the deadline, which expires at the time limit or on cancellation.
    func run<Value: Sendable>(
        _ context: String,
        until cancellation: RenderCancellation = RenderCancellation(),
        slot: RenderSlot? = nil,
        _ work: @escaping @Sendable (RenderDeadline) throws -> Value
    ) async throws(Error) -> Value {
        let grant = try await slot?.acquire()
        defer { grant?.release() }
        return try await cancelling(cancellation) { () throws(Error) in
            try await onThread(context) { [self] abandon in
                try timed(abandon) { try work(cancellation.deadline(limits.time)) }
            }
        }
    }

    // MARK: - Steps

    private typealias Execution<Value> = @Sendable (RenderDeadline) throws(Error) -> Value

    private enum Attempt<Value: Sendable>: Sendable {
        /// The memory acquired for the work, and the outcome.
        case ran(RenderCost, Result<Value, Error>)
        /// The cost, the work, and the time spent on the header.
        case mustWait(RenderCost, Execution<Value>, Duration)
    }

    /// Plans in a render slot, then executes once memory is available: immediately on the same thread if it is free.
    ///
    /// - Parameter data: If the body is a mapped file, its pages count as memory of this process while they are read.
    private func perform<Value: Sendable>(
        _ context: String,
        _ data: Data,
        _ slot: RenderSlot? = nil,
        _ prepare: @escaping @Sendable () throws(Error) -> (RenderPlan, Execution<Value>)
    ) async throws(Error) -> Value {
        let cancellation = RenderCancellation()
        defer { SpoolFile.releasePages(of: data) }
        var grant = try await slot?.acquire() ?? RenderGrant(withoutSlot: budget)
        defer { grant.release() }
        let attempt: Attempt<Value> = try await cancelling(cancellation) { [grant] () throws(Error) in
            try await onThread(context) { [self] abandon in
                try timed(abandon) {
                    let start = ContinuousClock.now
                    let deadline = cancellation.deadline(limits.time)
                    let (plan, execute) = try prepare()
                    // Codecs cannot be interrupted while they read a header, so the deadline may have passed.
                    if deadline.isExpired, let error = deadline.error { throw error }
                    let cost = plan.cost.adding(SpoolFile.bytes(of: data), within: budget.bytes)
                    guard try grant.tryUpgrade(to: cost) else {
                        SpoolFile.releasePages(of: data)
                        return .mustWait(cost, execute, start.duration(to: .now))
                    }
                    return .ran(cost, Result { () throws(Error) in try execute(deadline) })
                }
            }
        }
        switch attempt {
        case .ran(let cost, let result):
            grant.hold(cost)
            do throws(Error) { return try result.get() } catch { throw error.about(context) }
        case .mustWait(let cost, let execute, let spent):
            do throws(Error) { try await grant.upgrade(to: cost) } catch { throw error.about(context) }
            return try await cancelling(cancellation) { () throws(Error) in
                try await onThread(context) { [self] abandon in
                    try timed(abandon) { try execute(cancellation.deadline(limits.time - spent)) }
                }
            }
        }
    }

    private func cancelling<Value: Sendable>(
        _ cancellation: RenderCancellation,
        _ body: () async throws(Error) -> Value
    ) async throws(Error) -> Value {
        let result: Result<Value, Error> = await withTaskCancellationHandler {
            do throws(Error) { return .success(try await body()) } catch { return .failure(error) }
        } onCancel: {
            cancellation.cancel()
        }
        return try result.get()
    }

    private func onThread<Value: Sendable>(
        _ context: String,
        _ work: @escaping @Sendable (_ abandon: @escaping @Sendable (any Swift.Error) -> Void) throws -> Value
    ) async throws(Error) -> Value {
        let recorder = QueueWaitRecorder.current
        do {
            return try await threads.runUnlessAbandoned { abandon in
                let start = ContinuousClock.now
                defer { recorder?.rendered(for: start.duration(to: .now)) }
                return try work(abandon)
            }
        } catch let error as Error {
            throw error.about(context)
        } catch is CancellationError {
            throw Error(.cancelled, "The rendering of \(context) was cancelled.")
        } catch {
            throw Error(.renderFailed, "\(context): \(error)", underlying: error)
        }
    }

    /// Records the start of work, so that the watchdog sees how long it has been running.
    private func timed<Value, Failure: Swift.Error>(
        _ abandon: @escaping @Sendable (any Swift.Error) -> Void,
        _ work: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        let id = nextID.add(1, ordering: .relaxed).newValue
        let render = Running(start: .now, abandon: abandon)
        running.withLock { $0[id] = render }
        defer { running.withLock { $0[id] = nil } }
        return try work()
    }
}

extension ImageError {
    /// Prefixes the message with its context.
    fileprivate func about(_ context: String) -> Self {
        var error = self
        error.message = "\(context): \(error.message)"
        return error
    }
}
