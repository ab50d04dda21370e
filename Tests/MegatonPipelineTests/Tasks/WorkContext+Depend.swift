@testable import MegatonPipeline

extension WorkContext {
    /// Like `value(of:)`, without a Swift task: events are delivered within the call that sends them, so that a test
    /// sees each step. The other work's progress becomes this one's; its failure ends this one, and its operations with
    /// it.
    func depend<Key: Hashable & Sendable, Other: Sendable>(
        on pool: WorkPool<Key, Other>,
        key: Key,
        job: WorkJob<Other>,
        onValue: @escaping @Sendable (_ value: Other, _ isCompleted: Bool, _ wasCoalesced: Bool) -> Void
    ) {
        guard let link = node.reserveLink() else { return }
        let subscription = pool.subscribe(to: key, priority: priority, job: job) { [node] event, wasCoalesced in
            if event.result != nil { node.removeLink(link) }
            switch event {
            case .value(let value, let isCompleted): onValue(value, isCompleted, wasCoalesced)
            case .progress(let completed, let total): node.send(.progress(completed: completed, total: total))
            case .failure(let error): node.finish(.failure(error), cancelsOperations: true)
            }
        }
        if let subscription { node.attach(WorkLink(subscription), to: link) }
    }
}
