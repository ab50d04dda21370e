/// Limits on the jobs that wait for a host or a time (held and delayed), beyond which intakes are not read.
///
/// Waiting jobs do not fill the window, so that a slow host stops no other. Each costs several times the memory of a
/// job in an intake, so that their number needs a limit of its own. Intakes are closed in steps: a batch that fills the
/// first limit alone leaves room for the public lists, and both leave room for small batches.
struct WaitingLimits: Sendable {
    /// Number of waiting jobs, and bytes of their JSON, above which the first step is taken.
    var jobs = 500_000
    var bytes = 128 << 20

    /// The intakes that are not read.
    enum Step: String {
        /// Those of batches that have a whole window of unfinished jobs.
        case largeBatches = "large_batches"
        /// Those, and the public ones: the jobs of a list are read in order, and nothing limits their number.
        case publicLists = "public_lists"
        /// All: there may be any number of small batches.
        case all

        /// Multiple of the limits above which the step is taken.
        var factor: Int {
            switch self {
            case .largeBatches: 1
            case .publicLists: 2
            case .all: 4
            }
        }
    }

    /// The step for this number of waiting jobs and bytes; nil while all intakes are read.
    func step(jobs waiting: Int, bytes size: Int) -> Step? {
        [Step.all, .publicLists, .largeBatches].first { waiting > $0.factor * jobs || size > $0.factor * bytes }
    }
}
