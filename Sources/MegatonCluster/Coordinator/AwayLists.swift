internal import MegatonRedis
import Synchronization

/// The lists of clients that could not be reached, as a leader knows them. Redis has their names (`away`), and the
/// outcomes of each in a list of its own, so that they stay in order: later ones come behind them.
final class AwayLists: Sendable {
    private struct State {
        /// Each list with the number of times that outcomes were moved to it.
        var lists: [String: Int] = [:]
        /// Slots in which an attempt has failed, at most 16,384, with the time until which others there are not tried.
        var slots: [Int: ContinuousClock.Instant] = [:]
    }

    private let state = Mutex(State())
    /// Fired when a list is added.
    let added = AsyncSignal()

    /// Time for which no further list of a slot is tried after a failure: each attempt holds up the outbox.
    static let pause: Duration = .seconds(2)

    var isEmpty: Bool { state.withLock { $0.lists.isEmpty } }

    /// Some of the lists, by chance: those whose outcomes were delivered are removed, so that the others have their
    /// turn.
    func some(_ limit: Int) -> [String] { state.withLock { Array($0.lists.keys.shuffled().prefix(limit)) } }

    /// Whether outcomes for this list must not be delivered directly.
    func mustWait(_ list: String, at now: ContinuousClock.Instant) -> Bool {
        state.withLock { state in
            state.lists[list] != nil || state.slots[HashSlot.of(list)].map { now < $0 } ?? false
        }
    }

    /// Notes that an attempt has failed.
    func failed(_ list: String, at now: ContinuousClock.Instant) {
        state.withLock { $0.slots[HashSlot.of(list)] = now + Self.pause }
    }

    func add(_ lists: some Sequence<String>) {
        state.withLock { state in
            for list in lists { state.lists[list, default: 0] += 1 }
        }
        added.signal()
    }

    /// How often outcomes were moved to a list.
    func additions(to list: String) -> Int { state.withLock { $0.lists[list] ?? 0 } }

    /// Forgets a list that has no outcomes any more, unless others were moved to it since.
    ///
    /// - Parameter additions: their number before its outcomes were read.
    func remove(_ list: String, after additions: Int) {
        state.withLock { if $0.lists[list] == additions { $0.lists[list] = nil } }
    }
}
