import MegatonTestSupport

@testable import MegatonPipeline

/// Two levels of work and a queue beneath them, used by threads at random, with records of all events.
final class TaskGraphStress: Sendable {
    private typealias Failure = ImagePipeline.Error

    struct Subscriber: Sendable {
        var ends = 0
        var hasLeft = false
    }

    struct Books: Sendable {
        var subscribers: [Subscriber] = []
        var subscriptions: [(subscriber: Int, subscription: WorkSubscription)] = []
        /// The context of each piece of work, for both levels.
        var contexts: [WorkContext<Int>] = []
        /// Pieces of work that wait for a thread to finish them.
        var byHand: [Int] = []
        /// Number of cancellations of each piece of work.
        var cancellations: [Int: Int] = [:]
        /// Pieces of work whose end was delivered.
        var told: Set<Int> = []
    }

    let top = WorkPool<Int, Int>()
    let bottom = WorkPool<Int, Int>()
    let queue = TaskQueue(maxConcurrentOperationCount: 3)
    private let state = TaskTestBox(Books())

    /// Runs under the lock, because Swift tasks of cancelled work may still be ending.
    func read<Value: Sendable>(_ body: (Books) -> Value) -> Value { state.withLock { body($0) } }

    // MARK: - Random steps

    func step(_ random: inout SeededGenerator) {
        let priority = WorkPriority.allCases[Int.random(in: 0..<5, using: &random)]
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<50: subscribe(key: .random(in: 0..<40, using: &random), priority, .random(in: 0..<6, using: &random))
        case 50..<80: leave(&random)
        case 80..<92: pick(&random) { $0.subscription }?.setPriority(priority)
        case 92..<96: queue.maxConcurrentOperationCount = .random(in: 1...4, using: &random)
        default: finishOneByHand()
        }
    }

    private func subscribe(key: Int, _ priority: WorkPriority, _ kind: Int) {
        let number = state.withLock { books in
            books.subscribers.append(Subscriber())
            return books.subscribers.count - 1
        }
        let subscription = top.subscribe(to: key, priority: priority, job: job(kind, key)) { [state] event, _ in
            guard let result = event.result else { return }
            state.withLock { books in
                books.subscribers[number].ends += 1
                switch result {
                case .success(let work): books.told.insert(work)
                case .failure(let error): if let work = Int(error.message) { books.told.insert(work) }
                }
            }
        }
        if let subscription { state.withLock { $0.subscriptions.append((number, subscription)) } }
    }

    private func leave(_ random: inout SeededGenerator) {
        guard let (number, subscription) = pick(&random, { $0 }) else { return }
        state.withLock { $0.subscribers[number].hasLeft = true }
        subscription.cancel()
    }

    private typealias Entry = (subscriber: Int, subscription: WorkSubscription)

    private func pick<Part: Sendable>(_ random: inout SeededGenerator, _ part: (Entry) -> Part) -> Part? {
        // Recent ones, which mostly have not ended yet.
        state.withLock { books in books.subscriptions.suffix(40).randomElement(using: &random).map(part) }
    }

    private func finishOneByHand() {
        let next = state.withLock { books in books.byHand.popLast().map { ($0, books.contexts[$0]) } }
        if let (work, context) = next { context.finish(work) }
    }

    // MARK: - Work

    private func note(_ context: WorkContext<Int>) -> Int {
        let work = state.withLock { books in
            books.contexts.append(context)
            return books.contexts.count - 1
        }
        context.onCancel { [state] in state.withLock { $0.cancellations[work, default: 0] += 1 } }
        return work
    }

    private func job(_ kind: Int, _ key: Int) -> WorkJob<Int> {
        switch kind {
        case 0: .starting { [self] in $0.finish(note($0)) }
        case 1:
            .starting { [self] context in
                let work = note(context)
                state.withLock { $0.byHand.append(work) }
            }
        case 2:
            .starting { [self] context in
                let work = note(context)
                context.depend(on: bottom, key: key / 3, job: bottomJob(key)) { [queue] _, isCompleted, _ in
                    if isCompleted { context.enqueue(on: queue) { context.finish(work) } }
                }
            }
        case 3:
            .running { [self] context async throws(Failure) in
                let work = note(context)
                throw Failure(.corruptImage, "\(work)")
            }
        default:
            .running { [self] context async throws(Failure) in
                let work = note(context)
                _ = try await context.value(of: bottom, key: key / 3, job: bottomJob(key)) { context.send(partial: $0) }
                return try await context.perform(on: queue) { work }
            }
        }
    }

    private func bottomJob(_ key: Int) -> WorkJob<Int> {
        if key % 5 == 0 { return .starting { [self] in $0.fail(Failure(.timedOut, "\(note($0)) of the bottom")) } }
        return .running { [self] context async throws(Failure) in
            let work = note(context)
            for step in 0..<5 {
                context.send(completed: Int64(step), total: 5)
                await Task.yield()
            }
            return try await context.perform(on: queue) { work }
        }
    }

    // MARK: - The end

    /// Finishes the work that waits for a thread, and waits for the rest.
    func finish() async {
        while !isSettled, !Task.isCancelled {
            finishOneByHand()
            await Task.yield()
        }
    }

    private var isSettled: Bool {
        guard top.count + bottom.count + queue.pendingCount + queue.runningCount == 0 else { return false }
        // The end of a piece of work is delivered after it has left the pool, possibly by another thread.
        return state.withLock { $0.subscribers.allSatisfy { $0.ends > 0 || $0.hasLeft } }
    }
}
