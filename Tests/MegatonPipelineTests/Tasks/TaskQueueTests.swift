import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct TaskQueueTests {
    private typealias Failure = ImagePipeline.Error

    @Test func respectsMaxConcurrentOperationCountOfTwo() async {
        let queue = TaskQueue(maxConcurrentOperationCount: 2)
        let running = TaskTestBox((now: 0, most: 0))
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<50 {
                group.addTask {
                    try? await queue.perform {
                        running.withLock {
                            $0.now += 1
                            $0.most = max($0.most, $0.now)
                        }
                        await Task.yield()
                        running.withLock { $0.now -= 1 }
                    }
                }
            }
        }
        #expect((1...2).contains(running.value.most))
        #expect(queue.pendingCount == 0)
        // The last of them release their slots after their results.
        while queue.runningCount > 0, !Task.isCancelled { await Task.yield() }
        let gates = (0..<3).map { _ in TaskTestGate() }
        for gate in gates { queue.enqueue { await gate.pass() } }
        await gates[0].begun.value
        await gates[1].begun.value
        #expect(queue.runningCount == 2 && queue.pendingCount == 1)
        for gate in gates { gate.open.resolve(()) }
    }

    @Test func highPriorityItemExecutesFirst() async {
        let recorder = Recorder()
        for (index, priority) in [WorkPriority.low, .high, .veryLow, .normal, .veryHigh].enumerated() {
            recorder.add(index, priority)
        }
        #expect(await recorder.order() == [4, 1, 3, 0, 2])
    }

    @Test func fifoOrderWithinSamePriority() async {
        let recorder = Recorder()
        for index in 0..<20 { recorder.add(index, index < 10 ? .low : .normal) }
        #expect(await recorder.order() == Array(10..<20) + Array(0..<10))
    }

    // Setting the priority that an operation already has keeps its place; the graph does so for all of its work.
    @Test func theSamePriorityOnceMoreKeepsThePlace() async {
        let recorder = Recorder()
        let first = recorder.add(0, .normal)
        recorder.add(1, .normal)
        recorder.add(2, .normal).setPriority(.normal)
        first.setPriority(.normal)
        #expect(await recorder.order() == [0, 1, 2])
    }

    @Test func decreasedPriorityGoesAheadOfExistingLowerPriorityItems() async {
        let recorder = Recorder()
        recorder.add(0, .low)
        recorder.add(1, .low)
        recorder.add(2, .high).setPriority(.low)
        #expect(await recorder.order() == [2, 0, 1])
    }

    @Test func increasedPriorityAppendsAfterExistingHigherPriorityItems() async {
        let recorder = Recorder()
        recorder.add(0, .high)
        recorder.add(1, .high)
        let raised = recorder.add(2, .low)
        recorder.add(3, .normal)
        raised.setPriority(.high)
        #expect(await recorder.order() == [0, 1, 2, 3])
    }

    @Test func aPriorityThatWasOvertakenByALaterOneIsDropped() async {
        let recorder = Recorder()
        recorder.add(0, .normal)
        let operation = recorder.add(1, .normal)
        operation.setPriority(.veryLow, revision: 2)
        operation.setPriority(.veryHigh, revision: 1)
        #expect(await recorder.order() == [0, 1])
    }

    // Tests the state, so that the moment between its turn and its start can be held.
    @Test func cancellingDequeuedOperationBeforeItStartsPreventsExecution() {
        var state = TaskQueue.State(width: 1)
        let first = state.add(
            .normal,
            TaskQueue.State.Body {
            } dropped: {
            }
        )
        let second = state.add(
            .normal,
            TaskQueue.State.Body {
            } dropped: {
            }
        )
        #expect(state.takeReady() == [first])
        guard case .drop = state.cancel(first) else { return #expect(Bool(false), "its work is dropped at once") }
        #expect(state.begin(first) == nil)
        #expect(state.takeReady() == [], "its place is free only after its task has ended")
        state.end(first)
        #expect(state.takeReady() == [second])
        #expect(state.begin(second) != nil)
    }

    @Test func aCancelledOperationEitherRunsOrIsDropped() async {
        let queue = TaskQueue(maxConcurrentOperationCount: 2)
        for _ in 0..<200 {
            let ends = TaskTestBox((ran: 0, dropped: 0))
            let operation = queue.enqueue {
                ends.withLock { $0.dropped += 1 }
            } _: {
                ends.withLock { $0.ran += 1 }
            }
            operation.cancel()
            operation.cancel()
            // All operations enqueued before have had their turn once this one has.
            queue.maxConcurrentOperationCount = 1
            try? await queue.perform {}
            try? await queue.perform {}
            queue.maxConcurrentOperationCount = 2
            let (ran, dropped) = ends.value
            #expect(ran + dropped == 1)
        }
    }

    @Test func cancellingAPendingOperationRemovesIt() async {
        let queue = TaskQueue(maxConcurrentOperationCount: 1)
        queue.isSuspended = true
        let dropped = TaskTestBox(0)
        let operation = queue.enqueue {
            dropped.withLock { $0 += 1 }
        } _: {
            Issue.record("it was cancelled before its turn")
        }
        #expect(queue.pendingCount == 1)
        operation.cancel()
        operation.cancel()
        #expect(queue.pendingCount == 0)
        #expect(dropped.value == 1)
        queue.isSuspended = false
        try? await queue.perform {}
    }

    @Test func waitersForACancelledOperationAreNotified() async {
        let queue = TaskQueue(maxConcurrentOperationCount: 1)
        queue.isSuspended = true
        let enqueued = Promise<Void>()
        let waiter = Task {  // Awaited below.
            await Self.code {
                () async throws(Failure) in
                try await queue.perform(onEnqueue: { _ in enqueued.resolve(()) }) {}
            }
        }
        await enqueued.value
        waiter.cancel()
        #expect(await waiter.value == .cancelled)
        #expect(queue.pendingCount == 0)
    }

    @Test func cancellingARunningOperationCancelsItsSwiftTask() async {
        let queue = TaskQueue(maxConcurrentOperationCount: 1)
        let (begun, cancelled) = (Promise<Void>(), Promise<Void>())
        let operation = queue.enqueue {
            Issue.record("it has begun")
        } _: {
            await withTaskCancellationHandler {
                begun.resolve(())
                await cancelled.value
            } onCancel: {
                cancelled.resolve(())
            }
        }
        await begun.value
        #expect(queue.runningCount == 1)
        operation.cancel()
        await cancelled.value
        // Its slot is free again.
        try? await queue.perform {}
    }

    @Test func throwingWorkFreesSlot() async {
        let queue = TaskQueue(maxConcurrentOperationCount: 1)
        for _ in 0..<3 {
            let code = await Self.code { () async throws(Failure) in
                try await queue.perform { () async throws(Failure) in throw Failure(.corruptImage, "no picture") }
            }
            #expect(code == .corruptImage)
        }
        #expect((try? await queue.perform { 7 }) == 7)
    }

    @Test func increasingMaxConcurrentOperationCountStartsWhatWaits() async {
        let queue = TaskQueue(maxConcurrentOperationCount: 1)
        let gates = (0..<3).map { _ in TaskTestGate() }
        for gate in gates { queue.enqueue { await gate.pass() } }
        await gates[0].begun.value
        #expect(queue.runningCount == 1)
        #expect(queue.pendingCount == 2)
        queue.maxConcurrentOperationCount = 3
        await gates[1].begun.value
        await gates[2].begun.value
        #expect(queue.runningCount == 3)
        for gate in gates { gate.open.resolve(()) }
    }

    @Test func decreasingMaxConcurrentOperationCountLetsRunningOnesFinish() async {
        let queue = TaskQueue(maxConcurrentOperationCount: 2)
        let gates = (0..<3).map { _ in TaskTestGate() }
        for gate in gates { queue.enqueue { await gate.pass() } }
        await gates[0].begun.value
        await gates[1].begun.value
        queue.maxConcurrentOperationCount = 1
        #expect(queue.runningCount == 2)
        #expect(queue.pendingCount == 1)
        gates[0].open.resolve(())
        while queue.runningCount > 1, queue.pendingCount > 0, !Task.isCancelled { await Task.yield() }
        #expect(queue.runningCount == 1 && queue.pendingCount == 1, "the place that came free is gone")
        gates[1].open.resolve(())
        await gates[2].begun.value
        gates[2].open.resolve(())
    }

    @Test func aQueueLetsGoOfItsWork() async {
        let queue = TaskQueue(maxConcurrentOperationCount: 1)
        final class Token: Sendable {}
        weak var ran: Token?
        weak var dropped: Token?
        do {
            let (first, second) = (Token(), Token())
            (ran, dropped) = (first, second)
            queue.isSuspended = true
            queue.enqueue { _ = first }
            let operation = queue.enqueue(dropped: { _ = second }) { _ = second }
            operation.cancel()
        }
        #expect(dropped == nil)
        queue.isSuspended = false
        try? await queue.perform {}
        #expect(ran == nil)
    }

    /// Checked against slow, simple buckets made of arrays.
    @Test func bucketsBehaveAsTheirModel() {
        var random = SeededGenerator(seed: 7)
        var buckets = PriorityBuckets<Int>()
        var model = Array(repeating: [Int](), count: 5)
        var places: [Int: (place: Int, priority: WorkPriority)] = [:]
        for step in 0..<5_000 {
            let priority = WorkPriority.allCases[Int.random(in: 0..<5, using: &random)]
            let chosen = places.keys.sorted().randomElement(using: &random)
            switch (Int.random(in: 0..<10, using: &random), chosen) {
            case (0...3, _), (_, nil):
                places[step] = (buckets.append(step, priority: priority), priority)
                model[priority.rawValue].append(step)
            case (4...5, let chosen?):
                guard let old = places.removeValue(forKey: chosen) else { continue }
                #expect(buckets.remove(old.place) == chosen)
                model[old.priority.rawValue].removeAll { $0 == chosen }
            case (6...8, let chosen?):
                guard let old = places[chosen] else { continue }
                buckets.move(old.place, to: priority)
                if old.priority == priority { continue }
                model[old.priority.rawValue].removeAll { $0 == chosen }
                let end = priority > old.priority ? model[priority.rawValue].count : 0
                model[priority.rawValue].insert(chosen, at: end)
                places[chosen]?.priority = priority
            default:
                let bucket = model.lastIndex { !$0.isEmpty }
                let expected = bucket.map { model[$0].removeFirst() }
                #expect(buckets.popFirst() == expected)
                if let expected { places[expected] = nil }
            }
            #expect(buckets.count == places.count)
        }
    }

    private static func code(_ body: () async throws(Failure) -> Void) async -> Failure.Code? {
        do throws(Failure) {
            try await body()
            return nil
        } catch {
            return error.code
        }
    }
}

/// Records the order in which a queue with one slot runs operations that were added while it was suspended.
private final class Recorder: Sendable {
    private let queue = TaskQueue(maxConcurrentOperationCount: 1)
    private let ran = Mutex<[Int]>([])
    private let added = Mutex(0)
    private let isOver = Promise<Void>()

    init() { queue.isSuspended = true }

    @discardableResult
    func add(_ index: Int, _ priority: WorkPriority) -> TaskQueue.Operation {
        added.withLock { $0 += 1 }
        return queue.enqueue(priority: priority) { [self] in
            let count = ran.withLock { ran in
                ran.append(index)
                return ran.count
            }
            if count == added.withLock({ $0 }) { isOver.resolve(()) }
        }
    }

    func order() async -> [Int] {
        queue.isSuspended = false
        await isOver.value
        return ran.withLock { $0 }
    }
}
