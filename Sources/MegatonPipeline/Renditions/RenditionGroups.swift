import Synchronization

/// Renditions under way in this process, in groups that share one decode.
///
/// A request joins the groups of renditions that are under way, and opens one group for the rest. A group is a work
/// item of the task graph: it runs as long as any request wants one of its renditions, even if the request that opened
/// it leaves.
final class RenditionGroups: Sendable {
    typealias Results = RenditionProducer.Results
    /// Requested keys that are in the same group.
    typealias Part = (id: Int, keys: [CacheKey])

    /// Requests are coalesced only if their options are equal.
    private struct Wanted: Hashable {
        let key: CacheKey
        let options: RenditionRequestOptions
    }

    private struct State {
        var groups: [Wanted: Int] = [:]
        /// Keys that were assigned to each group, also those that no request has asked it for yet.
        var members: [Int: Set<Wanted>] = [:]
        var lastID = 0
    }

    private let state = Mutex(State())
    private let pool: WorkPool<Int, Results>
    private let isCoalescingEnabled: Bool

    init(isCoalescingEnabled: Bool) {
        self.isCoalescingEnabled = isCoalescingEnabled
        pool = WorkPool(isCoalescingEnabled: isCoalescingEnabled)
    }

    /// Number of requests that wait for groups.
    var subscriberCount: Int { pool.subscriberCount }

    /// Assigns each key to the group that makes it.
    func parts(_ keys: [CacheKey], _ options: RenditionRequestOptions) -> [Part] {
        state.withLock { state in
            state.lastID += 1
            var parts: [Part] = []
            for key in keys {
                let wanted = Wanted(key: key, options: options)
                let id = isCoalescingEnabled ? state.groups[wanted] ?? state.lastID : state.lastID
                state.groups[wanted] = id
                state.members[id, default: []].insert(wanted)
                if let index = parts.firstIndex(where: { $0.id == id }) {
                    parts[index].keys.append(key)
                } else {
                    parts.append((id, [key]))
                }
            }
            return parts
        }
    }

    /// Outcome of a part of a group. Starts `work` if the group is not under way.
    ///
    /// Keys are missing in the results if another request has opened the group anew for its own keys, after the first
    /// request was cancelled. The caller asks for them again; they are in no group then.
    ///
    /// - Parameter work: makes the part's own keys. Also needed if the group ended between `parts` and this call.
    func outcome(
        of part: Part,
        _ options: RenditionRequestOptions,
        priority: WorkPriority,
        _ work: @escaping @Sendable ([CacheKey], WorkContext<Results>) async -> Results
    ) async -> WorkOutcome<Results> {
        let outcome = await pool.outcome(
            for: part.id,
            priority: priority,
            job: .running { [self] context in
                defer { close(part.id) }
                return await work(part.keys, context)
            }
        )
        switch outcome.result {
        case .success(let results): leave(part.id, part.keys.filter { results[$0] == nil }, options)
        // Cancelled before its group began, or as the last of it: nothing makes these keys any more.
        case .failure: if !pool.contains(part.id) { close(part.id) }
        }
        return outcome
    }

    /// The next request for a key of the group opens another one.
    private func close(_ id: Int) {
        state.withLock { state in
            for wanted in state.members.removeValue(forKey: id) ?? [] where state.groups[wanted] == id {
                state.groups[wanted] = nil
            }
        }
    }

    /// The next request for one of these keys opens another group.
    private func leave(_ id: Int, _ keys: [CacheKey], _ options: RenditionRequestOptions) {
        if keys.isEmpty { return }
        state.withLock { state in
            for wanted in keys.map({ Wanted(key: $0, options: options) }) {
                if state.groups[wanted] == id { state.groups[wanted] = nil }
                state.members[id]?.remove(wanted)
            }
            if state.members[id]?.isEmpty == true { state.members[id] = nil }
        }
    }
}
