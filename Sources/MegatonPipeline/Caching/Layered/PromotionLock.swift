import Synchronization

/// Prevents the promotion of stale data: an entry read from a lower layer must not be stored in the upper ones if it
/// was changed since, because it would stay there.
///
/// Changes and promotions of one key are serialized. Only keys with an operation under way are remembered.
final class PromotionLock: Sendable {
    /// The versions of the keys when a lookup began.
    struct Ticket: Sendable {
        fileprivate let versions: [String: Int]
        fileprivate let epoch: Int
    }

    fileprivate struct KeyState {
        /// Lookups, changes and promotions under way.
        var users = 0
        var version = 0
        var isHeld = false
        var waiting: [Promise<Void>] = []
    }

    fileprivate struct State {
        var keys: [String: KeyState] = [:]
        /// Number of removals of everything.
        var epoch = 0
    }

    private let state = Mutex(State())

    func beginLookUp(_ keys: [String]) -> Ticket {
        state.withLock { state in
            var versions: [String: Int] = [:]
            for key in keys {
                state.keys[key, default: KeyState()].users += 1
                versions[key] = state.keys[key]?.version
            }
            return Ticket(versions: versions, epoch: state.epoch)
        }
    }

    func endLookUp(_ ticket: Ticket) {
        state.withLock { state in
            for key in ticket.versions.keys { state.leave(key) }
        }
    }

    /// Changes a key's entry. Promotions of data read earlier are either complete before the change or do not happen.
    func change(_ key: String, _ body: () async -> Void) async {
        await enter(key)
        await changeEntered(key, body)
        exit(key)
    }

    /// Changes a key's entry unless a change or a promotion of it is under way.
    func changeIfFree(_ key: String, _ body: () async -> Void) async {
        guard enterIfFree(key) else { return }
        await changeEntered(key, body)
        exit(key)
    }

    private func changeEntered(_ key: String, _ body: () async -> Void) async {
        state.withLock { $0.keys[key]?.version += 1 }
        await body()
        // A lookup that started during the change may have found the old entry.
        state.withLock { $0.keys[key]?.version += 1 }
    }

    func changeAll() { state.withLock { $0.epoch += 1 } }

    /// Runs the body if the key was not changed since the lookup, and undoes it if all entries were removed meanwhile.
    /// Does nothing if a change or another promotion of the key is under way: after the one the data is outdated, and
    /// the other stores it.
    func promote(_ key: String, _ ticket: Ticket, _ body: () async -> Void, undo: () async -> Void) async {
        guard enterIfFree(key) else { return }
        if isCurrent(key, ticket) {
            await body()
            if !isCurrent(key, ticket) { await undo() }
        }
        exit(key)
    }

    // MARK: -

    private func isCurrent(_ key: String, _ ticket: Ticket) -> Bool {
        state.withLock { $0.epoch == ticket.epoch && $0.keys[key]?.version == ticket.versions[key] }
    }

    /// Waits until the caller may change the key. There is no time limit: the wait depends on the speed of the layers.
    private func enter(_ key: String) async {
        let turn = state.withLock { state -> Promise<Void>? in
            state.keys[key, default: KeyState()].users += 1
            if state.keys[key]?.isHeld == false {
                state.keys[key]?.isHeld = true
                return nil
            }
            let turn = Promise<Void>()
            state.keys[key]?.waiting.append(turn)
            return turn
        }
        await turn?.value
    }

    /// - Returns: whether the caller may change the key; false if another one does.
    private func enterIfFree(_ key: String) -> Bool {
        state.withLock { state in
            if state.keys[key]?.isHeld == true { return false }
            state.keys[key, default: KeyState()].users += 1
            state.keys[key]?.isHeld = true
            return true
        }
    }

    private func exit(_ key: String) {
        let next = state.withLock { state -> Promise<Void>? in
            let next: Promise<Void>?
            if state.keys[key]?.waiting.isEmpty == false {
                next = state.keys[key]?.waiting.removeFirst()
            } else {
                next = nil
                state.keys[key]?.isHeld = false
            }
            state.leave(key)
            return next
        }
        next?.resolve(())
    }
}

extension PromotionLock.State {
    fileprivate mutating func leave(_ key: String) {
        keys[key]?.users -= 1
        if keys[key]?.users == 0 { keys[key] = nil }
    }
}
