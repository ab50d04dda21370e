import Synchronization

/// The renditions that are being made in this process, in groups that share one decode.
///
/// Who asks for renditions of which some are under way joins their groups, and opens one group for the rest. A group is
/// work of the graph: it lasts as long as anybody wants any of its renditions, whoever opened it.
final class RenditionGroups: Sendable {
    typealias Settled = RenditionMaker.Settled
    /// Some of the keys that were asked for, in one group.
    typealias Part = (id: Int, keys: [CacheKey])

    private struct State {
        var groups: [CacheKey: Int] = [:]
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
    func parts(_ keys: [CacheKey]) -> [Part] {
        state.withLock { state in
            state.lastID += 1
            var parts: [Part] = []
            for key in keys {
                let id = isCoalescingEnabled ? state.groups[key] ?? state.lastID : state.lastID
                state.groups[key] = id
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
        priority: WorkPriority,
        _ work: @escaping @Sendable ([CacheKey]) async -> Settled
    ) async -> WorkOutcome<Settled> {
        await pool.outcome(
            for: part.id,
            priority: priority,
            job: .running { [self] _ in
                defer { close(part) }
                return await work(part.keys)
            }
        )
    }

    private func close(_ part: Part) {
        state.withLock { state in
            for key in part.keys where state.groups[key] == part.id { state.groups[key] = nil }
        }
    }
}
