public import MegatonPipeline

/// One thing to do: a source, and what is to be made of it. The public wire form is JSON.
public struct Job: Sendable, Hashable {
    /// What is done with the source.
    public enum Kind: String, WordChoice {
        /// Fetch, and make the renditions.
        case process
        /// Fetch into the cache only: Nuke's prefetching.
        case fetch
    }

    /// Who goes first.
    public enum Priority: String, WordChoice {
        case high, normal, bulk
    }

    /// Files that an output may replace. The job's own source is never replaced.
    public enum Replacement: String, WordChoice {
        /// None whose content differs.
        case nothing = "none"
        /// Images of the output's format.
        case images
        /// Any file.
        case all
    }

    /// `[A-Za-z0-9._:-]{1,128}`, or a whole number in JSON; given by the coordinator if nil. It belongs to the batch: other
    /// batches may use the same.
    public var id: String?
    public var kind: Kind
    /// `https:`, `http:`, `file:` or `data:`.
    public var source: String
    /// What is made. Where neither this nor a preset is given: one JPEG within 256x256.
    public var renditions: [Rendition]?
    /// A list of renditions that the coordinator knows.
    public var preset: String?
    /// `file:///…` with `{path} {stem} {name} {ext} {host} {hash} {width} {height}`; nil keeps the results in the cache.
    public var output: String?
    public var batch: String?
    public var priority: Priority
    /// How often it is tried at the most, 1 to 100.
    public var attempts: Int
    /// Name of a credential that the workers know (``Worker/Configuration/credentials``): never the secret itself. What is
    /// fetched with it is apart from all else in the caches.
    public var credential: String?
    /// Whether the first attempt asks the origin in spite of a failure that the cache remembers. A retry does so anyway.
    public var ignoresRememberedFailures: Bool
    /// Notes of the submitter, which come back in the outcome and the dead letter; at most 1 KiB of JSON.
    public var labels: Labels?
    /// The batch that it died in, if `megaton dead requeue` pushed it: its id is one of that batch's, which has counted it.
    public var requeuedFrom: String?
    /// Which damage of the source is an error, for renditions that do not say so themselves; nil is what the worker says.
    public var failOn: Rendition.FailOn?
    /// Files that the outputs may replace; ``Replacement/images`` if nil.
    public var replace: Replacement?
    /// Fetches and renders again, whatever the caches have.
    public var reload: Bool?
    /// Why the client that submits the job refuses it: it fails as `invalid_job` with this message, and is counted in its
    /// batch.
    public var refused: String?

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

    /// What is made where nothing is said.
    public static let defaultRenditions = [Rendition(width: 256, height: 256)]

    /// Renditions of one job.
    public static let maximumRenditions = 32
    /// Bytes of a job's JSON.
    public static let maximumSize = 1024 * 1024
}
