import Foundation

/// Results of `megaton-bench queue`.
struct QueueReport: Encodable, Sendable {
    var jobs: Int
    var workers: Int
    /// Bytes of Redis' memory per job in the intake.
    var bytesPerWaitingJob: Double
    var jobsPerSecond: Double
    /// Jobs per second in the steady part.
    var steadyRate: Int
    /// Latency from push to start in the steady part.
    var p50Milliseconds: Double
    var p99Milliseconds: Double

    var text: String {
        func number(_ value: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", value) }
        return """
            backlog     \(jobs) jobs, \(number(bytesPerWaitingJob, 0)) bytes of Redis each
            throughput  \(number(jobsPerSecond, 0)) jobs a second with \(workers) worker processes
            latency     p50 \(number(p50Milliseconds, 2)) ms, p99 \(number(p99Milliseconds, 2)) ms from push to start, \
            at \(steadyRate) jobs a second
            """
    }
}
