package import MegatonCore
internal import MegatonPipeline
internal import Metrics

/// Counts of a worker about its jobs, by swift-metrics. A pack counts as its sources.
package struct JobMetrics: Sendable {
    static let claims = MetricDescription("megaton_job_claims_total", .counter, "Jobs that the worker has claimed")
    static let stalled = MetricDescription(
        "megaton_job_stalled_claims_total",
        .counter,
        "Claims of jobs with which a worker has died or fallen silent"
    )
    static let ends = MetricDescription(
        "megaton_job_ends_total",
        .counter,
        "Jobs that have ended, by result (done, failed, cancelled) and, for failed ones, the code of the error",
        labels: ["result", "code"]
    )
    static let retries = MetricDescription(
        "megaton_job_retries_total",
        .counter,
        "Attempts that failed and led to a retry, by the code of the error",
        labels: ["code"]
    )
    static let holds = MetricDescription(
        "megaton_job_holds_total",
        .counter,
        "Jobs that the worker released because their host takes no further request now"
    )
    static let releases = MetricDescription(
        "megaton_job_releases_total",
        .counter,
        "Jobs that the worker released because it shut down"
    )
    static let late = MetricDescription(
        "megaton_job_late_settlements_total",
        .counter,
        "Settlements that Redis refused because another worker had the job"
    )
    static let seconds = MetricDescription(
        "megaton_job_duration_seconds",
        .histogram,
        "Time of jobs by stage: waiting until the claim, fetch, render, store, and total from claim to settlement",
        labels: ["stage"],
        buckets: MetricDescription.jobSeconds
    )
    static let bytesOut = MetricDescription("megaton_output_bytes_total", .counter, "Bytes of the renditions of jobs")
    static let renditions = MetricDescription(
        "megaton_renditions_total",
        .counter,
        "Renditions of done jobs, by format and origin (render, cache)",
        labels: ["format", "from"]
    )

    package static let descriptions = [
        claims, stalled, ends, retries, holds, releases, late, seconds, bytesOut, renditions,
    ]

    private let factory: any MetricsFactory
    // Those without a label that depends on the job, made once.
    private let (claimed, stalls, held, released, refused): (Counter, Counter, Counter, Counter, Counter)
    private let (waiting, fetch, render, store, total): (Timer, Timer, Timer, Timer, Timer)
    private let delivered: Counter
    /// The usual end.
    private let done: Counter
    private let pipeline = PipelineCounters()

    /// Counts with the factory that the process has bootstrapped.
    init() {
        let factory = MetricsSystem.factory
        self.factory = factory
        func counter(_ description: MetricDescription, _ labels: [(String, String)] = []) -> Counter {
            Counter(label: description.name, dimensions: labels, factory: factory)
        }
        func timer(_ stage: String) -> Timer {
            Timer(label: Self.seconds.name, dimensions: [("stage", stage)], factory: factory)
        }
        claimed = counter(Self.claims)
        stalls = counter(Self.stalled)
        held = counter(Self.holds)
        released = counter(Self.releases)
        refused = counter(Self.late)
        waiting = timer("waiting")
        (fetch, render, store, total) = (timer("fetch"), timer("render"), timer("store"), timer("total"))
        delivered = counter(Self.bytesOut)
        done = counter(Self.ends, Self.labels(of: .done))
    }

    func countClaim(_ job: ActiveJob) {
        let sources = max(1, job.packSize)
        claimed.increment(by: sources)
        if job.stalls > 0 { stalls.increment(by: sources) }
        if let waited = job.waited { waiting.recordSeconds(waited.inSeconds) }
    }

    /// Counts the work of one attempt at one source, also of one that fails.
    func count(_ metrics: PipelineMetrics, seconds: Double) {
        let times = metrics.times
        total.recordSeconds(seconds)
        for (timer, time) in [(fetch, times.fetching), (render, times.rendering), (store, times.storing)]
        where time > .zero {
            timer.recordSeconds(time.inSeconds)
        }
        pipeline.count(metrics.counts)
    }

    /// Counts a job that has ended, and its renditions.
    func count(_ outcome: JobOutcome) {
        if outcome.status == .done {
            done.increment()
        } else {
            counter(Self.ends, Self.labels(of: outcome.status, outcome.error?.code)).increment()
        }
        for output in outcome.outputs {
            delivered.increment(by: output.bytes)
            counter(Self.renditions, [("format", output.format.rawValue), ("from", output.from.rawValue)]).increment()
        }
    }

    private static func labels(of status: JobOutcome.Status, _ code: String? = nil) -> [(String, String)] {
        [("result", status.rawValue), ("code", code ?? "")]
    }

    func countRetry(after code: String) { counter(Self.retries, [("code", code)]).increment() }
    func countHold() { held.increment() }
    func countRelease() { released.increment() }
    func countRefusal() { refused.increment() }

    private func counter(_ description: MetricDescription, _ labels: [(String, String)]) -> Counter {
        Counter(label: description.name, dimensions: labels, factory: factory)
    }
}
