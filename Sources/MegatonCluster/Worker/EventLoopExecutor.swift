internal import NIOCore

/// Runs tasks on an event loop: those that wait for replies of Redis go on in the thread that has read them. On the
/// shared pool each reply would wake another thread, which is a fifth of what a short job costs.
///
/// For short work only, as it delays all connections of the loop. A `Task` that such a task makes runs on the shared
/// pool, and so does work below `withTaskExecutorPreference(globalConcurrentExecutor)`. The loop must not be shut down
/// before the tasks have ended, as it drops what it is given afterwards.
final class EventLoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    init(_ loop: any EventLoop) { self.loop = loop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // Holds the executor until the job has run, as the reference below does not.
        loop.execute { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}
