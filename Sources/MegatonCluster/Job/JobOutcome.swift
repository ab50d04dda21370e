internal import Foundation
public import MegatonPipeline

/// Outcome of a job: one line of a ledger.
public struct JobOutcome: Sendable, Hashable, Codable {
    /// Final state of a job.
    public enum Status: String, Sendable, Codable {
        case done, failed, cancelled
        /// The batch has the same job already. If the id is the same, outputs or error are those of that job, if they
        /// are known.
        case deduplicated
    }

    /// Error code of a job that has the id of another one of its batch.
    package static let idConflict = "id_conflict"

    /// Error codes of duplicates whose first job has a line of its own, which says how it has ended.
    package static let duplicates: Set<String> = ["duplicate", "duplicate_id", "duplicate_key"]

    /// Whether a line with this status and error code is the failure of an earlier job, of the same id or idempotency
    /// key, whose own line may be in another ledger.
    package static func isFailedDuplicate(_ status: Status, code: String?) -> Bool {
        guard status == .deduplicated, let code else { return false }
        return !duplicates.contains(code)
    }

    /// A rendition that was made, or found in the cache.
    public struct Output: Sendable, Hashable, Codable {
        /// The rendition's name.
        public var name: String
        /// Absolute path, or the `s3:` URL of an object; nil if the job names no output.
        public var path: String?
        /// Pixels.
        public var width: Int
        /// Pixels.
        public var height: Int
        /// Format of the output.
        public var format: Rendition.Format
        /// Number of bytes of the output.
        public var bytes: Int
        /// 64 hex digits.
        public var sha256: String
        /// Origin of the output: rendered for this job, or found in a cache.
        public var from: RenditionResponse.Source
        /// SSIMULACRA2 score, see `RenditionResponse.score`; nil if the rendition has no `targetScore`, or a side of
        /// less than 8 pixels. Rounded down to hundredths.
        public var score: Double?
        /// Name of the entry in the shared cache, 64 hex digits; nil if the job names an output.
        package var cacheKey: String?
        /// Digest of the rendition's options, 16 hex digits; nil if the job names no output, or if an earlier version
        /// has written the outcome.
        package var options: String?

        /// The digest of the options that change pixels or bytes: another one stands for another image.
        package static func digest(ofOptions rendition: Rendition) -> String {
            if rendition.isIdenticalIfEqual { return digests.value(of: rendition) { digest(of: rendition) } }
            var rendition = rendition
            // Only the worker has the pixels of a watermark; its name is an option.
            rendition.watermark?.overlay = nil
            return digest(of: rendition)
        }

        private static let digests = RecentValues<Rendition, String>(limit: Job.maximumRenditions)

        private static func digest(of rendition: Rendition) -> String {
            let text = rendition.identity.joined(separator: "\n")
            return String(Checksum.sha256(Data(text.utf8)).prefix(16))
        }
    }

    /// Why it failed.
    public struct Failure: Sendable, Hashable, Codable {
        /// Code of the error, such as `not_found`.
        public var code: String
        /// The event and the thing that it happened to, in a sentence for people.
        public var message: String
        /// Whether a new submission may succeed.
        public var retryable: Bool

        package init(code: String, message: String, retryable: Bool) {
            self.code = code
            self.message = message
            self.retryable = retryable
        }
    }

    /// Time of an attempt by stage, in seconds. The sum is ``JobOutcome/seconds``.
    public struct Times: Sendable, Hashable, Codable {
        /// Waiting for permits, places, threads, memory, caches, and other workers' fetches and renders.
        public var waiting: Double
        /// Requests to the origin, and reads of files.
        public var fetching: Double
        /// Reading headers, decoding, scaling, encoding.
        public var rendering: Double
        /// Writing outputs.
        public var storing: Double

        /// - Parameters:
        ///   - seconds: duration of the whole attempt.
        ///   - stages: durations of the work; the rest is waiting.
        init(seconds: Double, _ stages: StageTimes) {
            var left = seconds
            // Overlapping work, such as two groups of renditions, counts only up to the end of the attempt.
            func take(_ time: Duration) -> Double {
                let taken = min(left, (time.inSeconds * 1e6).rounded() / 1e6)
                left = max(0, left - taken)
                return taken
            }
            fetching = take(stages.fetching)
            rendering = take(stages.rendering)
            storing = take(stages.storing)
            waiting = (left * 1e6).rounded() / 1e6
        }
    }

    /// Maximum number of characters of a source in an outcome: a `data:` URL may be long.
    package static let maximumSource = 2048

    /// Nil only if the pushed text was no job at all.
    public var id: String?
    /// The job's source, at most 2,048 characters of it.
    public var source: String
    /// Final state of the job.
    public var status: Status
    /// The renditions that were made or found.
    public var outputs: [Output]
    /// Why the job failed; nil if it did not.
    public var error: Failure?
    /// Number of attempts.
    public var attempts: Int
    /// Duration of the last attempt, from claim to end.
    public var seconds: Double
    /// When the job ended, seconds since 1970, in the outcomes of a batch: for a job that took no time, as no worker
    /// attempted it. Nil for any other.
    public var endedAt: Double?
    /// The duration by stage; nil if no worker attempted the job.
    public var times: Times?
    /// Remarks about the result: damage despite which an image was rendered, a score below its target. Nil if
    /// there are none; at most eight.
    public var notes: [String]?
    /// Facts about the source, as far as the job wants them; nil if no rendition was made or found, or if all were
    /// found in a cache that an earlier version has written.
    public var facts: SourceFacts?
    /// The worker that ended it, `host:pid:random`; nil if no worker did.
    public var worker: String?
    /// The whole job, if it failed and could be read: `megaton run --retry-failed` submits it again. Left out above
    /// `maximumJobSize` bytes.
    public var job: Job? {
        get { failed?.job }
        set { failed = newValue.map(FailedJob.init) }
    }

    /// The job's labels, unchanged.
    public var labels: Job.Labels?

    private var failed: FailedJob?

    /// A job outside its outcome: few outcomes have one, and it would make each copy of any of them several times as
    /// large.
    private final class FailedJob: Sendable, Hashable, Codable {
        let job: Job

        init(_ job: Job) { self.job = job }

        init(from decoder: any Decoder) throws { job = try Job(from: decoder) }
        func encode(to encoder: any Encoder) throws { try job.encode(to: encoder) }

        static func == (one: FailedJob, other: FailedJob) -> Bool { one.job == other.job }
        func hash(into hasher: inout Hasher) { hasher.combine(job) }
    }

    private enum CodingKeys: String, CodingKey {
        case id, source, status, outputs, error, attempts, seconds, endedAt, times, notes, facts, worker, labels
        case failed = "job"
    }

    /// Maximum number of bytes of a job's JSON in an outcome.
    package static let maximumJobSize = 16 * 1024

    package init(
        id: String? = nil,
        source: String,
        status: Status,
        outputs: [Output] = [],
        error: Failure? = nil,
        attempts: Int = 0,
        seconds: Double = 0,
        worker: String? = nil,
        labels: Job.Labels? = nil
    ) {
        self.id = id
        self.source = source
        self.status = status
        self.outputs = outputs
        self.error = error
        self.attempts = attempts
        self.seconds = seconds
        self.worker = worker
        self.labels = labels
    }
}
