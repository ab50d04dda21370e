import MegatonPipeline

/// Rate at which an intake is emptied, from repeated observations of its length.
struct AdmissionRate {
    private let length: Int
    private var first: (taken: Int, at: ContinuousClock.Instant)?
    private var last: (taken: Int, at: ContinuousClock.Instant)?

    /// - Parameter length: length of the intake before any job is taken.
    init(of length: Int) { self.length = length }

    mutating func observe(length now: Int) {
        let taken = length - now
        guard taken > last?.taken ?? 0 else { return }
        last = (taken, ContinuousClock.now)
        if first == nil { first = last }
    }

    /// Whether the intake is empty.
    var isOver: Bool { last?.taken == length }

    /// Time of the last observed change.
    var changed: ContinuousClock.Instant? { last?.at }

    /// Jobs per second between the first and the last observed change; nil if these are the same.
    var perSecond: Double? {
        guard let first, let last, last.taken > first.taken else { return nil }
        return Double(last.taken - first.taken) / first.at.duration(to: last.at).inSeconds
    }
}
