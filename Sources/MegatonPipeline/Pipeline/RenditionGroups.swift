import Synchronization

/// The renditions that are being made in this process, in groups that share one decode.
///
/// Who asks for renditions of which some are under way joins their groups, and opens one group for the rest. A group is
/// work of the graph: it lasts as long as anybody wants any of its renditions, whoever opened it.
final class RenditionGroups: Sendable {
    typealias Settled = RenditionMaker.Settled
    /// Some of the keys that were asked for, in one group.
    typealias Part = (id: Int, keys: [CacheKey])

    /// Who wants it otherwise gets it otherwise.
    private struct Wanted: Hashable {
        let key: CacheKey
        let wish: RenditionWish
    }

    private struct State {
        var groups: [Wanted: Int] = [:]
        var lastID = 0
    }

    private let state = Mutex(State())
    private let pool: WorkPool<Int, Settled>
    private let isCoalescingEnabled: Bool

    init(isCoalescingEnabled: Bool) {
        self.isCoalescingEnabled = isCoalescingEnabled
        pool = WorkPool(isCoalescingEnabled: isCoalescingEnabled)
    }

    /// How many wait for groups.
    var subscriberCount: Int { pool.subscriberCount }

    /// Each key, once, in the group that it belongs to.
    func parts(_ keys: [CacheKey], _ wish: RenditionWish) -> [Part] {
        state.withLock { state in
            state.lastID += 1
            var parts: [Part] = []
            for key in keys {
                let wanted = Wanted(key: key, wish: wish)
                let id = isCoalescingEnabled ? state.groups[wanted] ?? state.lastID : state.lastID
                state.groups[wanted] = id
                if let index = parts.firstIndex(where: { $0.id == id }) {
                    parts[index].keys.append(key)
                } else {
                    parts.append((id, [key]))
                }
            }
            return parts
        }
    }

    /// What becomes of a part: by `work` if nobody works on its group.
    ///
    /// - Parameter work: for the part's own keys. Where a group ended between `parts` and this call, it is done for them.
    func outcome(
        of part: Part,
        _ wish: RenditionWish,
        priority: WorkPriority,
        _ work: @escaping @Sendable ([CacheKey], WorkContext<Settled>) async -> Settled
    ) async -> WorkOutcome<Settled> {
        await pool.outcome(
            for: part.id,
            priority: priority,
            job: .running { [self] context in
                defer { close(part, wish) }
                return await work(part.keys, context)
            }
        )
    }

    private func close(_ part: Part, _ wish: RenditionWish) {
        state.withLock { state in
            for wanted in part.keys.map({ Wanted(key: $0, wish: wish) }) where state.groups[wanted] == part.id {
                state.groups[wanted] = nil
            }
        }
    }
}
