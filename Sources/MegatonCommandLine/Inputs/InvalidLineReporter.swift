package import MegatonCluster

/// Reports lines of lists that are not jobs: the first ones each, the others by their number, as a list may have
/// millions.
package struct InvalidLineReporter {
    private var count = 0

    private static let shown = 20

    package init() {}

    package mutating func add(_ location: LineLocation, _ error: JobError) {
        add(location, "is no job: \(error.message)")
    }

    /// - Parameter reason: the verb and the rest of the sentence.
    package mutating func add(_ location: LineLocation, _ reason: String) {
        count += 1
        if count <= Self.shown { Terminal.error("megaton: \(location) \(reason)") }
    }

    /// Reports the number of the others. Called when all lines were read.
    package mutating func end() {
        if count > Self.shown {
            Terminal.error("megaton: \(Counted.lines(count - Self.shown, "more")) could not be used, for such reasons.")
        }
        count = 0
    }
}
