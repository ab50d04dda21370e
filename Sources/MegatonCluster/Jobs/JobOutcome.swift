public import Foundation
public import MegatonPipeline

/// How a job ended: one line of a ledger.
public struct JobOutcome: Sendable, Hashable, Codable {
    /// Where it ended.
    public enum Status: String, Sendable, Codable {
        case done, failed, cancelled
        /// The batch has the same job already; under the same id, with that one's outputs or error where they are known.
        case deduplicated
    }

    /// A rendition that was made or found.
    public struct Output: Sendable, Hashable, Codable {
        public var name: String
        /// Absolute; nil where the job names no output.
        public var path: String?
        /// Pixels.
        public var width: Int
        /// Pixels.
        public var height: Int
        public var format: Rendition.Format
        public var bytes: Int
        /// 64 hex digits.
        public var sha256: String
        public var from: RenditionResponse.Source
    }

    /// Why it failed.
    public struct Failure: Sendable, Hashable, Codable {
        public var code: String
        public var message: String
        /// Whether submitting it again may help.
        public var retryable: Bool

        public init(code: String, message: String, retryable: Bool) {
            self.code = code
            self.message = message
            self.retryable = retryable
        }
    }

    /// Where the seconds of an attempt went. Their sum is ``JobOutcome/seconds``.
    public struct Times: Sendable, Hashable, Codable {
        /// For permits, places, threads, memory, caches, and other workers' fetches and renders.
        public var waiting: Double
        /// Requests to the origin, and reads of files.
        public var fetching: Double
        /// Headers, decoding, scaling, encoding.
        public var rendering: Double
        /// Writing of outputs.
        public var storing: Double

        /// - Parameters:
        ///   - seconds: of the whole attempt.
        ///   - stages: what of them was work; the rest is waiting.
        init(seconds: Double, _ stages: StageTimes) {
            var left = seconds
            // Work that overlaps, as of two groups of renditions, is counted no further than to the attempt's end.
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

    /// Characters of a source that an outcome repeats: a `data:` URL may be long.
    public static let maximumSource = 2048

    /// Nil only for what was no job at all.
    public var id: String?
    public var source: String
    public var status: Status
    public var outputs: [Output]
    public var error: Failure?
    /// How often it was tried.
    public var attempts: Int
    /// Of the last attempt, from claim to end.
    public var seconds: Double
    /// Where they went; nil where no worker tried.
    public var times: Times?
    /// Remarks on what was made: damage in spite of which an image was rendered, a color profile that does not fit. Nil
    /// where there are none; at most `RenderNotes.maximumCount`.
    public var notes: [String]?
    /// Who ended it: `host:pid:random`; nil where no worker did.
    public var worker: String?
    /// The whole job, if it failed and could be read: what `megaton run --retry-failed` submits again. Left out above
    /// `maximumJobSize` bytes.
    public var job: Job?

    /// The job's labels, as they were.
    public var labels: Job.Labels?

    /// Bytes of a job's JSON that an outcome repeats.
    public static let maximumJobSize = 16 * 1024

    public init(
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

    /// One line, without its end.
    public func json() -> Data { plainJSON ?? WireJSON.data(self) }

    /// The same, of what most jobs come to; nil of others.
    var plainJSON: Data? {
        guard error == nil, job == nil, labels == nil else { return nil }
        var json = PlainJSON(capacity: 512)
        json.open("{")
        json.field("attempts", attempts)
        json.field("id", id)
        json.field("notes", notes)
        json.name("outputs")
        json.open("[")
        for output in outputs {
            json.next()
            json.open("{")
            json.field("bytes", output.bytes)
            json.field("format", output.format.rawValue)
            json.field("from", output.from.rawValue)
            json.field("height", output.height)
            json.field("name", output.name)
            json.field("path", output.path)
            json.field("sha256", output.sha256)
            json.field("width", output.width)
            json.close("}")
        }
        json.close("]")
        json.field("seconds", seconds)
        json.field("source", source)
        json.field("status", status.rawValue)
        if let times {
            json.name("times")
            json.open("{")
            json.field("fetching", times.fetching)
            json.field("rendering", times.rendering)
            json.field("storing", times.storing)
            json.field("waiting", times.waiting)
            json.close("}")
        }
        json.field("worker", worker)
        json.close("}")
        return json.isPlain ? json.data : nil
    }
}
