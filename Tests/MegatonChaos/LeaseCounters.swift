/// The control Redis' counters of leases. Workers add theirs every 5 s and when they end.
struct LeaseCounters {
    /// Leases that expired.
    let stalled: Int
    /// Jobs that their workers stopped, because their leases could not be renewed in time.
    let fenced: Int
    /// Leases that another worker held when they were to be renewed.
    let lost: Int
    /// Completions that came too late and were refused.
    let late: Int

    /// - Parameter stat: the counters of all jobs.
    init(_ stat: [String: Int]) {
        stalled = stat["stalled"] ?? 0
        fenced = stat["fenced"] ?? 0
        lost = stat["leases_lost"] ?? 0
        late = stat.filter { $0.key.hasPrefix("late_") }.values.reduce(0, +)
    }

    /// Whether no job lost its lease.
    var areZero: Bool { stalled == 0 && fenced == 0 && lost == 0 && late == 0 }

    /// A text for reports.
    var text: String { "stalled \(stalled), fenced \(fenced), leases lost \(lost), refused as late \(late)" }
}
