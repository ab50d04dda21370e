import MegatonCluster

/// Tells which lines of lists are no jobs: of the first ones each, of the others how many they are, as a list may have
/// millions of them.
struct LineComplaints {
    private var count = 0

    private static let shown = 20

    mutating func add(_ place: LinePlace, _ error: JobError) { add(place, "is no job: \(error.message)") }

    /// - Parameter reason: the verb and the rest of the sentence.
    mutating func add(_ place: LinePlace, _ reason: String) {
        count += 1
        if count <= Self.shown { Terminal.error("megaton: \(place) \(reason)") }
    }

    /// To be called when all lines were read.
    mutating func end() {
        if count > Self.shown {
            Terminal.error("megaton: \(Counted.lines(count - Self.shown, "more")) could not be used, for such reasons.")
        }
        count = 0
    }
}
