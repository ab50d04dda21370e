internal import Foundation
public import MegatonPipeline

/// A source and the work to be done with it. The public wire form is JSON.
public struct Job: Sendable, Hashable, Encodable {
    /// The work that is done with the source.
    public enum Kind: String, WordChoice {
        /// Fetch the source and make the renditions.
        case process
        /// Fetch into the cache only, like Nuke's prefetching.
        case fetch
    }

    /// Share of the workers: waiting jobs of the three have the weights 16, 4 and 1.
    public enum Priority: String, WordChoice {
        case high, normal, bulk
    }

    /// Files that an output may replace. The job's own source is never replaced.
    public enum Replacement: String, WordChoice {
        /// No file whose content differs.
        case nothing = "none"
        /// Images of the output's format.
        case images
        /// Any file.
        case all
    }

    /// Facts about the source that an outcome has only if its job asks for them.
    public enum OptionalFact: String, WordChoice {
        /// Date, make and model of its EXIF.
        case exif
        /// Perceptual hash.
        case phash
    }

    /// `[A-Za-z0-9._:-]{1,128}` except `.` and `..`, or a whole number in JSON; if nil, the coordinator assigns one. It
    /// is unique within its batch: other batches may use the same id.
    public var id: String?
    /// The work that is done with the source.
    public var kind: Kind
    /// URL with `https:`, `http:`, `file:` or `data:`, or with `s3:` if the workers have an S3 credential or endpoint.
    public var source: String
    /// Renditions to make. Without these and without a preset: one JPEG within 256x256 pixels.
    public var renditions: [Rendition]?
    /// Name of a list of renditions that the coordinator knows.
    public var preset: String?
    /// `file:///…` or `s3://bucket/…` with `{path} {stem} {name} {ext} {host} {hash} {width} {height} {id} {label.x}`;
    /// nil keeps the results only in the cache.
    public var output: String?
    /// The batch that counts the job. A batch of ``ClusterClient`` sets its own name.
    public var batch: String?
    /// Share of the workers beside jobs of other priorities.
    public var priority: Priority
    /// Maximum number of attempts, 1 to 100.
    public var attempts: Int
    /// Name of a credential that the workers know (``Worker/Configuration/credentials``), never the secret itself.
    /// Responses fetched with it are separate from all others in the caches.
    public var credential: String?
    /// Whether the first attempt asks the origin even if the cache remembers a failure. A retry always does.
    public var ignoresRememberedFailures: Bool {
        get { ignoreRememberedFailures ?? false }
        set { ignoreRememberedFailures = newValue ? true : nil }
    }
    /// True or nil, as it is usually not written: earlier versions refuse fields that they do not know.
    private var ignoreRememberedFailures: Bool?
    /// Notes of the submitter, which are returned in the outcome and the dead letter; at most 1 KiB of JSON.
    public var labels: Labels?
    /// The batch in which the job died, if `megaton dead requeue` pushed it. Its id is one of that batch's, which has
    /// counted it.
    package var requeuedFrom: String?
    /// Damage of the source that is an error, for renditions that do not specify it; nil for the worker's setting.
    public var failOn: Rendition.FailOn?
    /// Files that the outputs may replace; ``Replacement/images`` if nil.
    public var replace: Replacement?
    /// Fetches and renders again, even if the results are cached.
    public var reload: Bool?
    /// Asks the origin whether the cached original, of any age, is still valid. If it is, cached results are used; if
    /// not, they are replaced. Without effect if ``reload`` is true.
    public var refresh: Bool?
    /// Idempotency key of at most 128 bytes. While the queue remembers it, no other job with this key is run: such a
    /// job ends as `deduplicated`, with the result of the first one if that is known.
    public var idempotencyKey: String?
    /// Seconds for which the queue remembers the idempotency key, 1 to 604,800; a day if nil. They begin when the job
    /// is admitted, or at `notBefore` if that is later.
    public var idempotencyTTL: Int?
    /// Seconds since 1970 before which the job does not begin, at most 366 days ahead; in JSON also a time such as
    /// `2027-01-31T08:00:00Z`.
    public var notBefore: Double?
    /// Number of jobs of its batch, with the last of which the batch closes by itself; for clients that push jobs
    /// without a submitter.
    package var batchSize: Int?
    /// Where the outcome is sent; nil for the ledger of the batch only.
    package var reply: JobReply?
    /// Facts about the source that the outcome has beside those that it always has; none at all if the list is empty.
    public var facts: [OptionalFact]?
    /// The span of the client that submits the job, as `traceparent` of W3C Trace Context, version 00: the spans of the
    /// job continue its trace.
    public var traceparent: String?
    /// Why the client that submits the job refuses it. The job fails as `invalid_job` with this message, and its batch
    /// counts it.
    package var refused: String?

    /// The fields of the wire form, in the order in which they are checked.
    enum CodingKeys: String, CodingKey, CaseIterable {
        case source, credential, id, kind, renditions, preset, output, batch, priority, attempts
        case ignoreRememberedFailures, labels, requeuedFrom, failOn, replace, reload, refresh, refused, facts
        case idempotencyKey = "key"
        case idempotencyTTL = "keyTTL"
        case notBefore, reply, batchSize, traceparent
    }

    /// Creates a job; only the source is required.
    public init(
        id: String? = nil,
        kind: Kind = .process,
        source: String,
        renditions: [Rendition]? = nil,
        preset: String? = nil,
        output: String? = nil,
        batch: String? = nil,
        priority: Priority = .normal,
        attempts: Int = 5,
        credential: String? = nil,
        ignoresRememberedFailures: Bool = false,
        labels: Labels? = nil,
        requeuedFrom: String? = nil,
        failOn: Rendition.FailOn? = nil
    ) {
        self.id = id
        self.kind = kind
        self.source = source
        self.renditions = renditions
        self.preset = preset
        self.output = output
        self.batch = batch
        self.priority = priority
        self.attempts = attempts
        self.credential = credential
        self.ignoresRememberedFailures = ignoresRememberedFailures
        self.labels = labels
        self.requeuedFrom = requeuedFrom
        self.failOn = failOn
    }

    /// Renditions of a job that specifies none.
    package static let defaultRenditions = [Rendition(width: 256, height: 256)]

    /// Maximum number of renditions of one job.
    public static let maximumRenditions = 32
    /// Maximum number of bytes of a job's JSON.
    public static let maximumSize = 1024 * 1024
}

/// `traceparent` of W3C Trace Context, version 00: `00-<trace id>-<parent id>-<flags>` in lower-case hex digits.
package enum TraceParent {
    /// Follows "allowed " in a message about an invalid value.
    static let allowed =
        "are texts of W3C Trace Context such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    package static func isValid(_ text: String) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard parts.map(\.count) == [2, 32, 16, 2], parts[0].elementsEqual("00".utf8) else { return false }
        let areDigits = parts.joined().allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): true
            default: false
            }
        }
        // An id of zeros stands for none.
        return areDigits && parts[1...2].allSatisfy { id in id.contains { $0 != UInt8(ascii: "0") } }
    }
}
