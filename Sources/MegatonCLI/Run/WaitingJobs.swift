import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// Jobs of a batch that wait for a retry, for their host or until their `notBefore`, for the progress line.
struct WaitingJobs {
    private var delayed: JobQueue.Delayed
    private var host: JobQueue.AwaitedHost?
    private var last = ContinuousClock.now
    private var hasFailed = false

    private static let interval: Duration = .seconds(1)

    init(_ delayed: JobQueue.Delayed = .init(count: 0, next: nil), host: JobQueue.AwaitedHost? = nil) {
        (self.delayed, self.host) = (delayed, host)
    }

    /// Asks Redis, at most once a second: jobs may be large, and the line need not be newer.
    mutating func poll(in queue: ShardedQueue, for batch: String) async {
        guard last.duration(to: .now) >= Self.interval else { return }
        last = .now
        do throws(RedisError) {
            delayed = try await queue.delayed(of: batch)
            host = delayed.count > 0 ? try await queue.awaitedHost(of: batch) : nil
        } catch {
            if let text = remark(on: error) { Terminal.error("megaton: \(text)") }
        }
    }

    /// Forgets the jobs if the error stays, as their times would be wrong.
    ///
    /// - Returns: the message for the first error that stays. If Redis is unreachable, the reader of outcomes meets the
    ///   same error and reports it.
    mutating func remark(on error: RedisError) -> String? {
        if error.isTransient { return nil }
        (delayed, host) = (JobQueue.Delayed(count: 0, next: nil), nil)
        defer { hasFailed = true }
        return hasFailed ? nil : "the progress does not show which jobs wait, and the batch continues: \(error.message)"
    }

    /// The text for the progress line.
    ///
    /// - Parameter open: number of jobs of the batch that have not ended.
    /// - Returns: the text, nil if no job waits; and whether all of the open jobs wait.
    func text(of open: Int) -> (text: String?, isAll: Bool) {
        guard delayed.count > 0, open > 0 else { return (nil, false) }
        let isAll = delayed.count >= open
        // Not the next attempt: a job with a `notBefore` has had none.
        if let host { return ("waiting for \(host.host), next in \(BatchProgress.time(host.seconds))", isAll) }
        let count = min(delayed.count, open)
        let text = "\(count) \(count == 1 ? "waits" : "wait")"
        return (text + (delayed.next.map { ", next in \(BatchProgress.time($0))" } ?? ""), isAll)
    }
}
