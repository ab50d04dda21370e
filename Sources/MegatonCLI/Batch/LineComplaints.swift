import MegatonCluster

/// Tells which lines of lists are no jobs: of the first ones each, of the others how many they are, as a list may have
/// millions of them.
struct LineComplaints {
    private var count = 0

    private static let shown = 20

    mutating func add(_ place: LinePlace, _ error: JobError) {
        count += 1
        if count <= Self.shown { Terminal.error("megaton: \(place) is no job: \(error.message)") }
    }

    /// To be called when all lines were read.
    func end() {
        if count > Self.shown { Terminal.error("megaton: \(count - Self.shown) more lines are no jobs.") }
    }
}
