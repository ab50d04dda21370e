import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// Notices that the workers of a cluster have gone, while a command waits for its batch: otherwise the progress stands
/// still, and nothing says why.
struct WorkerWatch {
    private var last = ContinuousClock.now
    private var isMissing = false
    private var hasFailed = false

    /// Time without outcomes after which the cluster is asked, and between two questions. The status of a large fleet
    /// is large.
    static let interval: Duration = .seconds(5)

    /// Asks after a time without outcomes, and reports once that no worker is left.
    ///
    /// - Parameters:
    ///   - hasOutcomes: whether there were outcomes since the last call.
    ///   - missingWorker: returns the processes that are missing, as a clause; nil if a worker runs.
    mutating func poll(
        hasOutcomes: Bool,
        _ missingWorker: () async throws(RedisError) -> String?
    ) async {
        if hasOutcomes {
            last = .now
            return
        }
        guard last.duration(to: .now) >= Self.interval else { return }
        last = .now
        do throws(RedisError) {
            let missing = try await missingWorker()
            if let missing, !isMissing { Terminal.error("megaton: the jobs wait: \(missing).") }
            isMissing = missing != nil
        } catch {
            // If Redis is unreachable, the reader of outcomes meets the same error and reports it.
            guard !error.isTransient, !hasFailed else { return }
            hasFailed = true
            Terminal.error(
                "megaton: the progress does not show whether workers run, and the batch continues: \(error.message)"
            )
        }
    }
}
