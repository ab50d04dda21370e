internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
import Synchronization

/// A separate process of a worker for jobs whose source two processes have died of. It runs one of them at a time.
///
/// If that process dies, only one image can be the cause, and the worker's other jobs go on. The process takes suspects
/// until none is left, and is started again when there are more.
final class SuspectIsolation: Sendable {
    private let start: @Sendable () async throws -> Worker.IsolatedProcess
    private let report: @Sendable (Int32) async throws -> JobQueue.WorkerExit
    private let logger: Logger
    private let request = AsyncSignal()
    /// Whether the process is running or about to start.
    private let isBusy = Atomic(false)
    /// Whether processes cannot be started here; suspects then run among the other jobs.
    private let isBroken = Atomic(false)

    /// Consecutive failed starts after which the worker stops trying.
    private static let failureLimit = 3

    /// - Parameter report: reports the death of a process to the queue.
    init(
        report: @escaping @Sendable (Int32) async throws -> JobQueue.WorkerExit,
        logger: Logger,
        start: @escaping @Sendable () async throws -> Worker.IsolatedProcess
    ) {
        self.report = report
        self.logger = logger
        self.start = start
    }

    /// The handling of suspects that a claim asks for.
    var handling: JobQueue.SuspectHandling {
        if isBroken.load(ordering: .acquiring) { return .one }
        return isBusy.load(ordering: .acquiring) ? .none : .ask
    }

    /// Requests the process, which is started once.
    func requestProcess() {
        isBusy.store(true, ordering: .releasing)
        request.signal()
    }

    /// Starts the process whenever it is requested, until the task is cancelled, which also ends a running process.
    func run(onEnd: @Sendable () -> Void) async {
        var failures = 0
        var backoff = Backoff()
        await request.serve {
            let process = try await start()
            if !process.isSuccess && !Task.isCancelled {
                logger.warning(
                    "the isolated process for suspects ended with an error",
                    metadata: [LogKey.pid: "\(process.pid)"]
                )
                let exit = try await report(process.pid)
                if !exit.hadRegistered { throw CannotStart() }
            }
            failures = 0
            backoff.reset()
        } pauseAfter: { error in
            // An unreachable Redis says nothing about whether processes can be started.
            if !(error is RedisError) { failures += 1 }
            logger.warning("no isolated process for suspects could be run", metadata: [LogKey.error: "\(error)"])
            return backoff.next(after: error)
        } done: {
            if failures >= Self.failureLimit { isBroken.store(true, ordering: .releasing) }
            isBusy.store(false, ordering: .releasing)
            onEnd()
        }
    }

    private struct CannotStart: Error, CustomStringConvertible {
        let description = "the process ended before it registered as a worker"
    }
}
