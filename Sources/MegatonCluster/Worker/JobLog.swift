internal import Foundation
internal import Logging
internal import MegatonCore
internal import MegatonPipeline

/// The lines of a worker's log about its jobs: one for each end, at `info`, or at `error` if the job failed for good;
/// one for each retry, at `notice`.
struct JobLog: Sendable {
    let logger: Logger

    /// - Parameters:
    ///   - batch: name of its batch; empty if it has none.
    ///   - bytesIn: bytes received for it; nil if that is not known.
    func end(_ outcome: JobOutcome, batch: String, bytesIn: Int? = nil) {
        let isFailed = outcome.status == .failed
        logger.log(
            level: isFailed ? .error : .info,
            isFailed ? "a job has failed for good" : "a job has ended",
            metadata: metadata(outcome, batch: batch, bytesIn: bytesIn)
        )
    }

    /// - Parameters:
    ///   - source: its source; nil if the job cannot be read.
    ///   - delay: until the next attempt.
    func retry(_ job: ActiveJob, source: String?, after error: ImagePipeline.Error, in delay: Duration) {
        var metadata: Logger.Metadata = [
            LogKey.jobID: "\(job.id)", LogKey.attempts: .stringConvertible(job.counted),
            LogKey.code: "\(error.code.rawValue)", LogKey.error: "\(error.message)",
            LogKey.delay: .stringConvertible(Self.seconds(delay.inSeconds)),
        ]
        if !job.batch.isEmpty { metadata[LogKey.batch] = "\(job.batch)" }
        if let source { metadata[LogKey.source] = "\(Self.shown(source))" }
        logger.notice("a job will be retried", metadata: metadata)
    }

    private func metadata(_ outcome: JobOutcome, batch: String, bytesIn: Int?) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            LogKey.jobID: "\(outcome.id ?? "")", LogKey.result: "\(outcome.status.rawValue)",
            LogKey.source: "\(Self.shown(outcome.source))",
            LogKey.attempts: .stringConvertible(outcome.attempts),
            LogKey.seconds: .stringConvertible(Self.seconds(outcome.seconds)),
            LogKey.bytesOut: .stringConvertible(outcome.outputs.reduce(0) { $0 + $1.bytes }),
        ]
        if !batch.isEmpty { metadata[LogKey.batch] = "\(batch)" }
        if let bytesIn { metadata[LogKey.bytesIn] = .stringConvertible(bytesIn) }
        if let error = outcome.error {
            metadata[LogKey.code] = "\(error.code)"
            metadata[LogKey.error] = "\(error.message)"
        }
        if let times = outcome.times {
            metadata[LogKey.fetchSeconds] = .stringConvertible(Self.seconds(times.fetching))
            metadata[LogKey.renderSeconds] = .stringConvertible(Self.seconds(times.rendering))
            metadata[LogKey.storeSeconds] = .stringConvertible(Self.seconds(times.storing))
        }
        return metadata
    }

    /// A source without what may be secret.
    private static func shown(_ source: String) -> String {
        URL(string: source)?.redacted ?? Redaction.text(source)
    }

    /// Seconds with milliseconds.
    private static func seconds(_ value: Double) -> Double { (value * 1000).rounded() / 1000 }
}
