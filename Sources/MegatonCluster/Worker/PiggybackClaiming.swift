internal import MegatonRedis

/// Claims jobs in the round trip of a settlement (piggybacking), for the places that its jobs have left.
protocol PiggybackClaiming: Sendable {
    /// Reserves the free places.
    ///
    /// - Returns: the claim to send with the settlement; nil if there is to be none. The caller calls ``endClaim(_:)``
    ///   once for each.
    func beginClaim() -> JobQueue.ClaimRequest?

    /// Runs the claimed jobs. A claim that failed is not repeated by the caller.
    func endClaim(_ claim: Result<JobQueue.Claim, RedisError>)
}

/// State of the claims that a claim loop sends with settlements, and the jobs that they have brought.
struct PiggybackState: Sendable {
    /// Whether further claims may begin.
    var isOpen = false
    /// Whether a claim is under way: one of these, or one of the loop. Each is for all free places.
    var underway: Origin?

    enum Origin { case loop, settlement }

    /// Whether the worker is to wait for a token before its next claim, by the last one: a further claim would find
    /// nothing.
    var needsToken = true
    /// Whether the loop has still to learn of that, as one of these claims was the last.
    var isNews = false
    /// Whether no jobs will come any more.
    var isOver = false
    /// Jobs that were claimed and do not run yet. Bounded by the places of the worker.
    var jobs: [ActiveJob] = []
}
