internal import Foundation

/// The lists of clients that could not be reached, and whose outcomes go round in the outbox until they can.
///
/// Outcomes for one list stay in order: the first of them that was moved to the end of the outbox is kept in mind, and
/// delivery goes on with it. A new leader does not know it and may begin with a later one.
struct AwayLists {
    private struct List {
        /// The entry of the outbox that is to be delivered first.
        var first: Data
        var nextAttempt: ContinuousClock.Instant
        /// Other entries that have moved since that time.
        var passed = 0
    }

    private var lists: [String: List] = [:]
    /// Entries moved since the last one was delivered.
    private var movedCount = 0

    /// Pause of the attempts for one list.
    static let pause: Duration = .seconds(2)
    /// Maximum number of lists. Others are tried each time that one of their outcomes is read.
    private static let limit = 10_000

    /// Whether this outcome must not be delivered now.
    ///
    /// - Parameter length: number of entries in the outbox.
    mutating func mustWait(
        _ list: String,
        with entry: Data,
        outbox length: Int,
        at now: ContinuousClock.Instant
    ) -> Bool {
        guard var away = lists[list] else { return false }
        if now < away.nextAttempt { return true }
        // After a whole round the first one is not there any more: an operator has deleted it, or Redis has returned to
        // an earlier state.
        if entry != away.first, away.passed < length {
            away.passed += 1
            lists[list] = away
            return true
        }
        // Those behind it follow in the same step.
        lists[list] = nil
        return false
    }

    mutating func reached(_ list: String) { lists[list] = nil }

    /// - Parameter first: the first entry for this list that was tried.
    mutating func failed(_ list: String, first: Data, at now: ContinuousClock.Instant) {
        if lists.count >= Self.limit { return }
        lists[list] = List(first: first, nextAttempt: now + Self.pause)
    }

    /// Notes how many of the entries that were read have moved to the end of the outbox.
    ///
    /// - Parameter length: number of entries in the outbox.
    /// - Returns: whether all of its entries have moved and none was delivered.
    mutating func isStuck(moved: Int, of count: Int, outbox length: Int) -> Bool {
        movedCount = moved == count ? movedCount + moved : 0
        if movedCount < length { return false }
        movedCount = 0
        return true
    }
}
