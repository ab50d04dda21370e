import Synchronization

/// Sees to it that what was read from a lower layer is not put into the upper ones when it has been changed meanwhile: it
/// would stay there.
///
/// Changes and promotions of one key happen one after the other. Only keys that somebody is busy with are remembered.
final class PromotionGate: Sendable {
    /// What was so when a look-up began.
    struct Ticket: Sendable {
        fileprivate let versions: [String: Int]
        fileprivate let epoch: Int
    }

    fileprivate struct Place {
        /// Look-ups, changes and promotions that are under way.
        var users = 0
        var version = 0
        var isHeld = false
        var waiting: [Answer<Void>] = []
    }

    fileprivate struct State {
        var places: [String: Place] = [:]
        /// Counts the removals of everything.
        var epoch = 0
    }

    private let state = Mutex(State())

    func beginLookUp(_ keys: [String]) -> Ticket {
        state.withLock { state in
            var versions: [String: Int] = [:]
            for key in keys {
                state.places[key, default: Place()].users += 1
                versions[key] = state.places[key]?.version
            }
            return Ticket(versions: versions, epoch: state.epoch)
        }
    }

    func endLookUp(_ ticket: Ticket) {
        state.withLock { state in
            for key in ticket.versions.keys { state.leave(key) }
        }
    }

    /// Changes a key's entry: promotions of what was read before do not happen, or have happened.
    func change(_ key: String, _ body: () async -> Void) async {
        await enter(key)
        state.withLock { $0.places[key]?.version += 1 }
        await body()
        // Who looked it up during the change may have found the old one.
        state.withLock { $0.places[key]?.version += 1 }
        exit(key)
    }

    func changeAll() { state.withLock { $0.epoch += 1 } }

    /// Runs the body if nothing has been changed since the look-up, and undoes it where everything was removed meanwhile.
    func promote(_ key: String, _ ticket: Ticket, _ body: () async -> Void, undo: () async -> Void) async {
        await enter(key)
        if isCurrent(key, ticket) {
            await body()
            if !isCurrent(key, ticket) { await undo() }
        }
        exit(key)
    }

    // MARK: -

    private func isCurrent(_ key: String, _ ticket: Ticket) -> Bool {
        state.withLock { $0.epoch == ticket.epoch && $0.places[key]?.version == ticket.versions[key] }
    }

    /// Waits for the key's turn. Those before it are as fast as the layers are.
    private func enter(_ key: String) async {
        let turn = state.withLock { state -> Answer<Void>? in
            state.places[key, default: Place()].users += 1
            if state.places[key]?.isHeld == false {
                state.places[key]?.isHeld = true
                return nil
            }
            let turn = Answer<Void>()
            state.places[key]?.waiting.append(turn)
            return turn
        }
        await turn?.value
    }

    private func exit(_ key: String) {
        let next = state.withLock { state -> Answer<Void>? in
            let next: Answer<Void>?
            if state.places[key]?.waiting.isEmpty == false {
                next = state.places[key]?.waiting.removeFirst()
            } else {
                next = nil
                state.places[key]?.isHeld = false
            }
            state.leave(key)
            return next
        }
        next?.give(())
    }
}

extension PromotionGate.State {
    fileprivate mutating func leave(_ key: String) {
        places[key]?.users -= 1
        if places[key]?.users == 0 { places[key] = nil }
    }
}
