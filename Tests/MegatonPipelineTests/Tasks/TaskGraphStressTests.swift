import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct TaskGraphStressTests {
    private typealias Failure = ImagePipeline.Error

    // MARK: - Threads

    /// A thread that sends while another one delivers leaves its event to that one.
    @Test func eventsAreDeliveredOneAtATimeAndInOrder() async {
        let pool = WorkPool<String, Int>()
        let work = TaskTestWork()
        let (inside, seen) = (TaskTestBox(0), TaskTestBox<[Int64]>([]))
        let end = TaskTestBox(0)
        pool.subscribe(to: "a", job: work.job) { event, _ in
            #expect(
                inside.withLock {
                    $0 += 1; return $0
                } == 1,
                "one at a time"
            )
            if case .progress(let completed, _) = event { seen.withLock { $0.append(completed) } }
            if event.result != nil { end.withLock { $0 += 1 } }
            inside.withLock { $0 -= 1 }
        }
        let next = TaskTestBox<Int64>(0)
        await onThreads(8) { _ in
            for _ in 0..<500 {
                // Numbered and sent under one lock, so that the numbers are in the order of the events.
                next.withLock {
                    $0 += 1
                    work.context.send(completed: $0, total: 0)
                }
                work.context.send(completed: .max, total: 0)
            }
        }
        work.context.finish(1)
        let numbered = seen.value.filter { $0 != .max }
        #expect(numbered == numbered.sorted())
        #expect(end.value == 1)
    }

    /// Of the events that wait for a slow observer, only the latest of each kind is kept.
    @Test func aSlowObserverGetsTheLatestEvents() {
        let pool = WorkPool<String, Int>()
        let (work, log) = (TaskTestWork(), TaskTestLog())
        let observer = log.observer("1")
        pool.subscribe(to: "a", job: work.job) { event, wasCoalesced in
            observer(event, wasCoalesced)
            guard case .progress(1, _) = event else { return }
            for step in 2...1_000 {
                work.context.send(completed: Int64(step), total: 0)
                work.context.send(partial: step)
            }
        }
        work.context.send(completed: 1, total: 0)
        work.context.finish(7)
        #expect(log.lines == ["1: 1/0", "1: 1000/0", "1: 1000…", "1: 7"])
    }

    @Test func theEndReplacesAPartialValueThatWasNotDelivered() {
        let pool = WorkPool<String, Int>()
        let (work, log) = (TaskTestWork(), TaskTestLog())
        let observer = log.observer("1")
        pool.subscribe(to: "a", job: work.job) { event, wasCoalesced in
            observer(event, wasCoalesced)
            guard case .progress = event else { return }
            work.context.send(partial: 1)
            work.context.finish(2)
        }
        work.context.send(completed: 1, total: 0)
        #expect(log.lines == ["1: 1/0", "1: 2"])
    }

    // MARK: - Memory

    private final class Token: Sendable {}

    @Test(arguments: [false, true]) func nothingIsKeptAfterTheEnd(isCancelled: Bool) {
        let (pool, lower) = (WorkPool<String, Token>(), TaskTestWork())
        let fetches = WorkPool<String, Int>()
        weak var captured: Token?
        weak var value: Token?
        weak var node: WorkNode<Token>?
        var subscription: WorkSubscription?
        do {
            let token = Token()
            captured = token
            let contexts = TaskTestBox<WorkContext<Token>?>(nil)
            let job = WorkJob<Token>.starting { context in
                contexts.withLock { $0 = context }
                context.onCancel { _ = token }
                context.depend(on: fetches, key: "a", job: lower.job) { _, _, _ in _ = token }
            }
            subscription = pool.subscribe(to: "a", job: job) { _, _ in _ = token }
            let context = contexts.withLock { $0.take() }
            node = context?.node
            if isCancelled {
                subscription?.cancel()
            } else {
                let result = Token()
                value = result
                context?.send(partial: result)
                context?.finish(result)
            }
            contexts.withLock { $0 = nil }
        }
        #expect(captured == nil)
        #expect(value == nil, "a node does not remember its value")
        #expect(lower.cancelled == 1)
        subscription = nil
        #expect(node == nil)
    }

    @Test func aDependencyThatHasEndedIsNotKept() {
        let (pool, fetches) = (WorkPool<String, Int>(), WorkPool<String, Int>())
        let (upper, lower) = (TaskTestWork(), TaskTestBox<WorkContext<Int>?>(nil))
        pool.subscribe(to: "a", job: upper.job) { _, _ in }
        upper.context.depend(on: fetches, key: "a", job: .starting { context in lower.withLock { $0 = context } }) {
            _,
            _,
            _ in
        }
        weak let node = lower.value?.node
        #expect(node != nil)
        lower.withLock { $0.take() }?.finish(1)
        #expect(node == nil)
        #expect(upper.context.isOpen)
        upper.context.finish(2)
    }

    @Test func aTaskAndItsOperationLeaveNothingBehind() async throws {
        weak var captured: Token?
        weak var pool: WorkPool<String, Int>?
        weak var queue: TaskQueue?
        do {
            let (token, work) = (Token(), WorkPool<String, Int>())
            let turns = TaskQueue(maxConcurrentOperationCount: 1)
            (captured, pool, queue) = (token, work, turns)
            let outcome = await work.outcome(
                for: "a",
                job: .running { context async throws(Failure) in
                    try await context.perform(on: turns) { withExtendedLifetime(token) { 5 } }
                }
            )
            #expect(try outcome.result.get() == 5)
        }
        // The Swift tasks of the node and of the operation end shortly after their results.
        while captured != nil || pool != nil || queue != nil, !Task.isCancelled { await Task.yield() }
        #expect(captured == nil && pool == nil && queue == nil)
    }

    // MARK: - Everything at once

    @Test(arguments: [1, 2, 3] as [UInt64]) func everyEndIsAccountedFor(seed: UInt64) async {
        let stress = TaskGraphStress()
        // 8 × 125 operations, each thread with its own numbers.
        await onThreads(8) { thread in
            var random = SeededGenerator(seed: seed * 100 + UInt64(thread))
            for _ in 0..<125 { stress.step(&random) }
        }
        await stress.finish()
        stress.read { books in
            #expect(books.subscribers.allSatisfy { $0.ends == 1 || $0.ends == 0 && $0.hasLeft })
            #expect(books.contexts.allSatisfy { !$0.isOpen })
            #expect(books.cancellations.values.allSatisfy { $0 == 1 })
            #expect(books.told.isDisjoint(with: books.cancellations.keys), "work is finished or cancelled, not both")
            // The run must have covered all of these cases.
            #expect(books.subscribers.count > 300)
            #expect(books.subscribers.filter { $0.ends == 0 }.count > 0)
            #expect(books.cancellations.count > 0)
            #expect(books.told.count > 10)
        }
    }

    private func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) async {
        let ends = (0..<count).map { _ in Promise<Void>() }
        for (index, end) in ends.enumerated() {
            Thread.detachNewThread {
                body(index)
                end.resolve(())
            }
        }
        for end in ends { await end.value }
    }
}
