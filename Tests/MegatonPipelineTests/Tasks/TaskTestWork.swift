@testable import MegatonPipeline

/// Work that a test controls: stores the context of each start, and counts cancellations.
final class TaskTestWork: Sendable {
    private let state = TaskTestBox<(contexts: [WorkContext<Int>], cancelled: Int)>(([], 0))

    var contexts: [WorkContext<Int>] { state.value.contexts }
    /// The context of the last start.
    var context: WorkContext<Int> { contexts[contexts.count - 1] }
    var cancelled: Int { state.value.cancelled }

    func noteCancellation() { state.withLock { $0.cancelled += 1 } }

    var job: WorkJob<Int> {
        .starting { [self] context in
            state.withLock { $0.contexts.append(context) }
            context.onCancel { self.noteCancellation() }
        }
    }

    /// Work that depends on other work.
    func job(on pool: WorkPool<String, Int>, _ key: String, _ other: WorkJob<Int>) -> WorkJob<Int> {
        .starting { [self] context in
            job.start(context)
            context.depend(on: pool, key: key, job: other) { _, _, _ in }
        }
    }
}
