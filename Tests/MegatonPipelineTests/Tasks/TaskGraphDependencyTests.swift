import Testing

@testable import MegatonCore
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct TaskGraphDependencyTests {
    private typealias Failure = ImagePipeline.Error
    private let pool = WorkPool<String, Int>()

    // MARK: - Dependencies

    @Test func whenSubscriptionIsRemovedDependencyIsCancelled() {
        let (upper, lower) = (TaskTestWork(), TaskTestWork())
        let fetches = WorkPool<String, Int>()
        let first = pool.subscribe(to: "a", job: upper.job(on: fetches, "x", lower.job)) { _, _ in }
        let second = pool.subscribe(to: "b", job: upper.job(on: fetches, "x", lower.job)) { _, _ in }
        #expect(lower.contexts.count == 1, "both need the same")
        first?.cancel()
        #expect(upper.cancelled == 1)
        #expect(lower.cancelled == 0)
        second?.cancel()
        #expect(lower.cancelled == 1)
        #expect(fetches.count == 0)
    }

    @Test func progressAndErrorsOfADependencyReachTheTop() {
        let (upper, lower, log) = (TaskTestWork(), TaskTestWork(), TaskTestLog())
        let middle = WorkPool<String, Int>()
        let bottom = WorkPool<String, Int>()
        let job = upper.job(
            on: middle,
            "a",
            .starting { $0.depend(on: bottom, key: "a", job: lower.job) { _, _, _ in } }
        )
        pool.subscribe(to: "a", job: job, observer: log.observer("1"))
        lower.context.send(completed: 5, total: 9)
        lower.context.fail(Failure(.timedOut, "too slow"))
        #expect(log.lines == ["1: 5/9", "1: timed_out"])
        #expect(pool.count + middle.count + bottom.count == 0)
    }

    @Test func progressIsSentIfASubscriberWantsIt() {
        let (work, log) = (TaskTestWork(), TaskTestLog())
        pool.subscribe(to: "a", job: work.job, wantsProgress: false, observer: log.observer("1"))
        work.context.send(completed: 1, total: 9)
        #expect(log.lines.isEmpty)
        pool.subscribe(to: "a", job: work.job, observer: log.observer("2"))
        work.context.send(completed: 2, total: 9)
        #expect(log.lines.sorted() == ["1: 2/9", "2: 2/9"])
    }

    /// A node that ends before its dependency unsubscribes from it.
    @Test func aNodeThatEndsLeavesItsDependency() {
        let (upper, lower) = (TaskTestWork(), TaskTestWork())
        let fetches = WorkPool<String, Int>()
        pool.subscribe(to: "a", job: upper.job(on: fetches, "a", lower.job)) { _, _ in }
        upper.context.finish(1)
        #expect(lower.cancelled == 1)
        #expect(upper.cancelled == 0)
    }

    /// A priority change during the subscription to a dependency is applied afterwards.
    @Test func aPriorityThatChangesMeanwhileReachesTheDependency() {
        let (upper, lower) = (TaskTestWork(), TaskTestWork())
        let fetches = WorkPool<String, Int>()
        let first = pool.subscribe(to: "a", job: upper.job) { _, _ in }
        let job = WorkJob<Int>.starting {
            lower.job.start($0)
            first?.setPriority(.high)
        }
        upper.context.depend(on: fetches, key: "a", job: job) { _, _, _ in }
        #expect(lower.context.priority == .high)
        first?.cancel()
        #expect(lower.cancelled == 1)
    }

    @Test(arguments: [false, true]) func aDependencyOfWorkThatEndsMeanwhileIsLeft(isCancelled: Bool) {
        let (upper, lower) = (TaskTestWork(), TaskTestWork())
        let fetches = WorkPool<String, Int>()
        let first = pool.subscribe(to: "a", job: upper.job) { _, _ in }
        let job = WorkJob<Int>.starting {
            lower.job.start($0)
            if isCancelled { first?.cancel() } else { upper.context.finish(1) }
        }
        upper.context.depend(on: fetches, key: "a", job: job) { _, _, _ in }
        #expect(lower.cancelled == 1)
        upper.context.depend(on: fetches, key: "b", job: job) { _, _, _ in }
        #expect(lower.contexts.count == 1, "nothing is begun for what has ended")
    }

    // A dependency that fails cancels queued operations, in the form that pipelines use.
    @Test func whenWhatATaskWaitsForFailsItsOperationsAreCancelled() async {
        let (lower, gate, ended) = (TaskTestWork(), TaskTestGate(), Promise<Void>())
        let (queue, fetches) = (TaskQueue(maxConcurrentOperationCount: 1), WorkPool<String, Int>())
        let started = Promise<Void>()
        let other = WorkJob<Int>.starting {
            lower.job.start($0)
            started.resolve(())
        }
        let job = WorkJob<Int>.running { context async throws(Failure) in
            context.enqueue(on: queue) { gate.end(wasCancelled: await gate.passUnlessCancelled()) }
            return try await context.value(of: fetches, key: "a", job: other)
        }
        pool.subscribe(to: "a", job: job) { event, _ in
            if event.result != nil { ended.resolve(()) }
        }
        await gate.begun.value
        await started.value
        lower.context.fail(Failure(.timedOut, "too slow"))
        // Operations are cancelled before the end is delivered.
        await ended.value
        gate.open.resolve(())
        #expect(await gate.wasCancelled.value)
    }

    @Test func whenDependencyFailsOutstandingOperationIsCancelled() async {
        let (lower, gate) = (TaskTestWork(), TaskTestGate())
        let (queue, fetches) = (TaskQueue(maxConcurrentOperationCount: 1), WorkPool<String, Int>())
        let job = WorkJob<Int>.starting { context in
            context.enqueue(on: queue) { gate.end(wasCancelled: await gate.passUnlessCancelled()) }
            context.depend(on: fetches, key: "a", job: lower.job) { _, _, _ in }
        }
        pool.subscribe(to: "a", job: job) { _, _ in }
        await gate.begun.value
        lower.context.fail(Failure(.timedOut, "too slow"))
        #expect(await gate.wasCancelled.value)
    }

    @Test func whenTaskFailsItsOwnOperationIsNotCancelled() async {
        let gate = TaskTestGate()
        let queue = TaskQueue(maxConcurrentOperationCount: 1)
        let job = WorkJob<Int>.starting { context in
            context.enqueue(on: queue) {
                await gate.pass()
                context.fail(Failure(.corruptImage, "no picture"))
                gate.end(wasCancelled: Task.isCancelled)
            }
        }
        pool.subscribe(to: "a", job: job) { _, _ in }
        // The node owns the operation by now: a cancellation would reach it.
        await gate.begun.value
        gate.open.resolve(())
        #expect(await gate.wasCancelled.value == false)
    }

    /// In a Swift task: the dependency's progress, the slot in a queue, and the end.
    @Test func aTaskWaitsForItsDependencyAndItsTurn() async throws {
        let (lower, log) = (TaskTestWork(), TaskTestLog())
        let (queue, fetches) = (TaskQueue(maxConcurrentOperationCount: 1), WorkPool<String, Int>())
        let (subscribed, ended) = (Promise<Void>(), Promise<Void>())
        let observer = log.observer("1")
        pool.subscribe(
            to: "a",
            job: .running { context async throws(Failure) in
                let job = WorkJob<Int>.starting {
                    lower.job.start($0)
                    subscribed.resolve(())
                }
                let data = try await context.value(of: fetches, key: "a", job: job) { context.send(partial: -$0) }
                return try await context.perform(on: queue) { data * 2 }
            }
        ) { event, wasCoalesced in
            observer(event, wasCoalesced)
            if event.result != nil { ended.resolve(()) }
        }
        await subscribed.value
        lower.context.send(completed: 1, total: 2)
        lower.context.send(partial: 20)
        lower.context.finish(21)
        await ended.value
        #expect(log.lines == ["1: 1/2", "1: -20…", "1: 42"])
    }

    @Test func aNodeWithoutSubscribersLeavesItsDependency() async throws {
        let lower = TaskTestWork()
        let fetches = WorkPool<String, Int>()
        let (subscribed, ended) = (Promise<Void>(), Promise<Failure.Code?>())
        let subscription = pool.subscribe(
            to: "a",
            job: .running { context async throws(Failure) in
                let job = WorkJob<Int>.starting {
                    lower.job.start($0)
                    subscribed.resolve(())
                }
                let outcome = await context.outcome(of: fetches, key: "a", job: job)
                if case .failure(let error) = outcome.result { ended.resolve(error.code) }
                return try outcome.result.get()
            }
        ) { _, _ in Issue.record("no task waits") }
        await subscribed.value
        subscription?.cancel()
        #expect(await ended.value == .cancelled)
        #expect(lower.cancelled == 1)
        #expect(fetches.count == 0)
    }

    // MARK: - The async form

    @Test func manyTasksShareOnePieceOfWork() async throws {
        let work = TaskTestWork()
        let subscribed = TaskTestBox(0)
        let (all, started) = (Promise<Void>(), Promise<Void>())
        let job = WorkJob<Int>.starting {
            work.job.start($0)
            started.resolve(())
        }
        async let outcomes = withTaskGroup(of: WorkOutcome<Int>.self) { group in
            for _ in 0..<20 {
                group.addTask { [pool] in
                    await pool.outcome(
                        for: "a",
                        job: job,
                        willStart: { _ in
                            let count = subscribed.withLock { (count: inout Int) -> Int in
                                count += 1
                                return count
                            }
                            if count == 20 { all.resolve(()) }
                        }
                    )
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        await all.value
        // The first subscriber subscribes before it starts the work.
        await started.value
        work.context.finish(3)
        let ends = await outcomes
        #expect(ends.allSatisfy { (try? $0.result.get()) == 3 })
        #expect(ends.filter { !$0.wasCoalesced }.count == 1, "one of them pays")
        #expect(work.contexts.count == 1)
    }

    // Cancelling one of two subscriptions leaves the other.
    @Test func aTaskThatIsCancelledLeavesAndTheOthersGoOn() async throws {
        let work = TaskTestWork()
        let (subscribed, started) = ([Promise<Void>(), Promise<Void>()], Promise<Void>())
        let job = WorkJob<Int>.starting {
            work.job.start($0)
            started.resolve(())
        }
        let tasks = subscribed.map { mark in
            Task { [pool] in  // Awaited below.
                await pool.outcome(for: "a", job: job, willStart: { _ in mark.resolve(()) })
            }
        }
        for mark in subscribed { await mark.value }
        // The first subscriber subscribes before it starts the work.
        await started.value
        tasks[0].cancel()
        let cancelled = await tasks[0].value
        #expect(throws: Failure.self) { try cancelled.result.get() }
        #expect(work.cancelled == 0)
        work.context.finish(8)
        #expect(try await tasks[1].value.result.get() == 8)
        #expect(work.contexts.count == 1)
    }

    /// A node that has ended starts no dependency: one that is being started is cancelled from its first moment on.
    @Test func aDependencyStartedByAnEndedNodeIsCancelledFromItsBeginning() async throws {
        let (parent, others) = (TaskTestWork(), WorkPool<String, Int>())
        let subscription = try #require(pool.subscribe(to: "a", job: parent.job) { _, _ in })
        let wasOpen = TaskTestBox(true)
        let job = WorkJob<Int>.starting { context in
            subscription.cancel()
            wasOpen.withLock { $0 = context.isOpen }
            context.finish(1)
        }
        let outcome = await parent.context.outcome(of: others, key: "b", job: job)
        #expect(throws: Failure.self) { try outcome.result.get() }
        #expect(!wasOpen.value)
    }

    @Test func leavingByTheSubscriptionEndsTheWait() async throws {
        let work = TaskTestWork()
        let outcome = await pool.outcome(for: "a", job: work.job, willStart: { $0.cancel() })
        guard case .failure(let error) = outcome.result else { return #expect(Bool(false), "it was left") }
        #expect(error.code == .cancelled)
        #expect(work.cancelled == 1)
    }
}
