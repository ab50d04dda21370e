import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Renders of several pipelines that wait in Swift tasks.
@Suite(.timeLimit(.minutes(2))) struct RenderQueueTests {
    private typealias Failure = ImagePipeline.Error

    private let budget = MemoryBudget(bytes: 100)

    private func cost(_ bytes: Int) -> RenderCost { RenderCost(bytes: bytes, isBuffered: false) }

    private func slot(_ queue: RenderQueue, _ priority: WorkPriority = .normal) -> RenderSlot {
        RenderSlot(queue: queue, context: nil, priority: priority)
    }

    private func wait(until condition: () -> Bool) async {
        while !condition(), !Task.isCancelled { await Task.yield() }
    }

    // MARK: - Renders

    @Test func aRenderGivesItsSlotBackWhileItWaitsForMemory() async throws {
        let queue = RenderQueue(budget, width: 1)
        try #require(try budget.tryAcquire(cost(100)))
        // Awaited below.
        let render = Task { () async throws(Failure) -> Int in
            var grant = try await slot(queue).acquire()
            defer { grant.release() }
            try await grant.upgrade(to: cost(40))
            return budget.counts.bytesInUse
        }
        await wait { budget.counts.waiting == 1 }
        #expect(queue.runningCount == 0)
        #expect(try await slot(queue).perform { 7 } == 7, "others can use it")
        budget.release(cost(100))
        #expect(try await render.value == 40)
        #expect(budget.counts == .init(bytesInUse: 0, waiting: 0, waited: 1) && queue.runningCount == 0)
    }

    @Test func memoryThatIsFreeIsAcquiredOnTheThread() async throws {
        let queue = RenderQueue(budget, width: 1)
        var grant = try await slot(queue).acquire()
        #expect(try grant.tryUpgrade(to: cost(100)))
        grant.hold(cost(100))
        #expect(budget.counts.bytesInUse == 100 && queue.runningCount == 1)
        grant.release()
        #expect(budget.counts == .init() && queue.runningCount == 0)
    }

    @Test func aRenderThatCostsTooMuchIsRefused() async throws {
        let queue = RenderQueue(budget, width: 1)
        var grant = try await slot(queue).acquire()
        #expect { try grant.tryUpgrade(to: cost(101)) } throws: { ($0 as? Failure)?.code == .tooCostly }
        do throws(Failure) {
            try await grant.upgrade(to: cost(101))
            Issue.record("it can never start")
        } catch {
            #expect(error.code == .tooCostly)
        }
        #expect(queue.runningCount == 1, "the slot is still its own")
        grant.release()
        #expect(queue.runningCount == 0)
    }

    @Test func aRenderWithoutASlotHasMemoryAlone() async throws {
        var grant = RenderGrant(withoutSlot: budget)
        grant.release()
        try await grant.upgrade(to: cost(60))
        #expect(budget.counts.bytesInUse == 60)
        grant.release()
        #expect(budget.counts == .init())
    }

    @Test(arguments: [false, true]) func aCancelledRenderHoldsNothing(waitsForMemory: Bool) async throws {
        let queue = RenderQueue(budget, width: 1)
        let other = waitsForMemory ? nil : try await slot(queue).acquire()
        try #require(try budget.tryAcquire(cost(100)))
        // Awaited below.
        let render = Task { () -> Failure.Code? in
            do throws(Failure) {
                var grant = try await slot(queue).acquire()
                defer { grant.release() }
                try await grant.upgrade(to: cost(1))
                return nil
            } catch {
                return error.code
            }
        }
        await wait { waitsForMemory ? budget.counts.waiting == 1 : queue.pendingCount == 1 }
        render.cancel()
        #expect(await render.value == .cancelled)
        other?.release()
        budget.release(cost(100))
        #expect(budget.counts.bytesInUse == 0 && budget.counts.waiting == 0)
        #expect(queue.runningCount == 0 && queue.pendingCount == 0)
    }

    /// Two pipelines with one budget, and cancellations at any moment.
    @Test(arguments: UInt64(0)..<8) func nothingIsLostInAnyOrder(seed: UInt64) async {
        var random = SeededGenerator(seed: seed)
        let queues = [RenderQueue(budget, width: 1), RenderQueue(budget, width: 3)]
        let finished = TaskTestBox(0)
        var renders: [Task<Void, Never>] = []
        for _ in 0..<400 {
            let slot = slot(random.pick(queues), random.pick(WorkPriority.allCases))
            let cost = RenderCost(bytes: Int.random(in: 1...100, using: &random), isBuffered: random.once(in: 3))
            // Awaited below.
            let render = Task { [budget] in
                do throws(Failure) {
                    var grant = try await slot.acquire()
                    defer { grant.release() }
                    await Task.yield()
                    if try grant.tryUpgrade(to: cost) { grant.hold(cost) } else { try await grant.upgrade(to: cost) }
                    #expect((cost.bytes...100).contains(budget.counts.bytesInUse))
                    #expect((1...3).contains(slot.queue.runningCount))
                    await Task.yield()
                    finished.withLock { $0 += 1 }
                } catch {
                    #expect(error.code == .cancelled)
                }
            }
            renders.append(render)
            if random.once(in: 4) { random.pick(renders).cancel() }
            if random.once(in: 2) { await Task.yield() }
        }
        for render in renders { await render.value }
        #expect(finished.value > 200)
        #expect(budget.counts.bytesInUse == 0 && budget.counts.waiting == 0)
        for queue in queues { #expect(queue.runningCount == 0 && queue.pendingCount == 0) }
    }

    // MARK: - Work

    @Test func aRenderHasThePriorityOfItsWork() async {
        let (queue, pool, order) = (RenderQueue(budget, width: 1), WorkPool<String, Int>(), TestLog<String>())
        let contexts = TestLog<WorkContext<Int>>()
        let gate = TaskTestGate()
        queue.enqueue { await gate.pass() }
        await gate.begun.value
        func start(_ name: String) -> WorkSubscription? {
            pool.subscribe(
                to: name,
                job: .running { context throws(Failure) in
                    contexts.append(context)
                    return try await RenderSlot(queue: queue, context: context).perform {
                        order.append(name)
                        return 0
                    }
                }
            ) { _, _ in }
        }
        let subscriptions = ["a", "b", "c"].map { start($0) }
        await wait { contexts.values.count { $0.node.linkCount == 1 } == 3 }
        subscriptions[1]?.setPriority(.high)
        subscriptions[0]?.cancel()
        await wait { queue.pendingCount == 2 }
        gate.open.resolve(())
        await order.wait(for: 2)
        #expect(order.values == ["b", "c"])
        await wait { queue.runningCount == 0 && pool.count == 0 }
    }

    @Test func aRenderKeepsThePriorityWhileItWaitsForMemory() async throws {
        let (queue, pool, order) = (RenderQueue(budget, width: 2), WorkPool<String, Int>(), TestLog<String>())
        let contexts = TestLog<WorkContext<Int>>()
        try #require(try budget.tryAcquire(cost(100)))
        func start(_ name: String) async -> WorkSubscription? {
            let started = contexts.values.count
            let subscription = pool.subscribe(
                to: name,
                job: .running { [cost] context throws(Failure) in
                    contexts.append(context)
                    var grant = try await RenderSlot(queue: queue, context: context).acquire()
                    defer { grant.release() }
                    try await grant.upgrade(to: cost(100))
                    order.append(name)
                    return 0
                }
            ) { _, _ in }
            // The request waits before its priority can change.
            await wait { contexts.values.dropFirst(started).first?.node.linkCount == 1 }
            return subscription
        }
        _ = await start("a")
        let urgent = await start("b")
        urgent?.setPriority(.veryHigh)
        budget.release(cost(100))
        await order.wait(for: 2)
        #expect(order.values == ["b", "a"])
        await wait { budget.counts.bytesInUse == 0 && queue.runningCount == 0 }
    }

    // MARK: - Operations

    @Test func aCancelledOperationIsDroppedOrItsTaskIsCancelled() async {
        let queue = RenderQueue(budget, width: 1)
        queue.isSuspended = true
        let dropped = Promise<Void>()
        let pending = queue.enqueue {
            dropped.resolve(())
        } _: {
            Issue.record("it was cancelled before its turn")
        }
        #expect(queue.pendingCount == 1)
        pending.cancel()
        pending.cancel()
        await dropped.value
        #expect(queue.pendingCount == 0)
        queue.isSuspended = false
        let gate = TaskTestGate()
        let running = queue.enqueue {
            Issue.record("it has begun")
        } _: {
            gate.end(wasCancelled: await gate.passUnlessCancelled())
        }
        await gate.begun.value
        running.cancel()
        #expect(await gate.wasCancelled.value)
        await wait { queue.runningCount == 0 }
    }

    @Test func aQueueEndsWithItsPipeline() async throws {
        weak var ended: RenderQueue?
        do {
            let queue = RenderQueue(budget, width: 1)
            ended = queue
            #expect(try await slot(queue).perform { 7 } == 7)
        }
        #expect(ended == nil)
        #expect(try budget.tryAcquire(cost(100)))
    }
}
