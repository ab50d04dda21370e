import MegatonPipeline

/// How fast an intake is emptied, by looking at it again and again.
struct AdmissionRate {
    private let length: Int
    private var first: (taken: Int, at: ContinuousClock.Instant)?
    private var last: (taken: Int, at: ContinuousClock.Instant)?

    /// - Parameter length: of the intake before anything is taken.
    init(of length: Int) { self.length = length }

    mutating func observe(length now: Int) {
        let taken = length - now
        guard taken > last?.taken ?? 0 else { return }
        last = (taken, ContinuousClock.now)
        if first == nil { first = last }
    }

    /// Whether there is nothing left to be taken.
    var isOver: Bool { last?.taken == length }

    /// When more was taken last.
    var changed: ContinuousClock.Instant? { last?.at }

    /// Jobs a second between the first look at which something was gone and the last one; nil where those are one.
    var perSecond: Double? {
        guard let first, let last, last.taken > first.taken else { return nil }
        return Double(last.taken - first.taken) / first.at.duration(to: last.at).inSeconds
    }
}
