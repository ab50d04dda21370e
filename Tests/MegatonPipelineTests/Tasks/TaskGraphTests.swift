import Testing

@testable import MegatonCore
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct TaskGraphTests {
    private typealias Failure = ImagePipeline.Error
    private let pool = WorkPool<String, Int>()

    // MARK: - Subscribers

    @Test func starterOnlyCalledOnce() {
        let work = TaskTestWork()
        for _ in 0..<3 { pool.subscribe(to: "a", job: work.job) { _, _ in } }
        #expect(work.contexts.count == 1)
        #expect(pool.count == 1)
        work.context.finish(1)
    }

    @Test func bothSubscriptionsReceiveEvents() {
        let (work, log) = (TaskTestWork(), TaskTestLog())
        pool.subscribe(to: "a", job: work.job, observer: log.observer("1"))
        pool.subscribe(to: "a", job: work.job, observer: log.observer("2"))
        work.context.send(completed: 1, total: 2)
        work.context.send(partial: 3)
        work.context.finish(4)
        work.context.finish(5)
        work.context.send(completed: 2, total: 2)
        #expect(log.lines == ["1: 1/2", "2: 1/2", "1: 3…", "2: 3…", "1: 4", "2: 4"])
        #expect(pool.count == 0)
    }

    @Test func lateSubscribersGetNoReplay() {
        let (work, log) = (TaskTestWork(), TaskTestLog())
        pool.subscribe(to: "a", job: work.job) { _, _ in }
        work.context.send(completed: 1, total: 2)
        pool.subscribe(to: "a", job: work.job, observer: log.observer("late"))
        work.context.send(completed: 2, total: 2)
        work.context.finish(1)
        #expect(log.lines == ["late: 2/2", "late: 1"])
    }

    // Nor does a subscriber get the event that is being delivered while it subscribes.
    @Test func aSubscriptionDuringAnEventGetsTheNext() {
        let (work, log) = (TaskTestWork(), TaskTestLog())
        pool.subscribe(to: "a", job: work.job) { [pool] event, _ in
            guard case .progress(1, _) = event else { return }
            pool.subscribe(to: "a", job: work.job, observer: log.observer("late"))
        }
        work.context.send(completed: 1, total: 2)
        work.context.send(completed: 2, total: 2)
        work.context.finish(1)
        #expect(log.lines == ["late: 2/2", "late: 1"])
    }

    @Test func errorPropagatedToBothCoalescedSubscribers() {
        let (work, log) = (TaskTestWork(), TaskTestLog())
        pool.subscribe(to: "a", job: work.job, observer: log.observer("1"))
        pool.subscribe(to: "a", job: work.job, observer: log.observer("2"))
        work.context.fail(Failure(.corruptImage, "no picture"))
        #expect(log.lines == ["1: corrupt_image", "2: corrupt_image"])
        #expect(pool.count == 0)
    }

    @Test func subscribeToTaskWithSynchronousCompletionReturnsNil() {
        let log = TaskTestLog()
        let subscription = pool.subscribe(
            to: "a",
            job: .starting { $0.finish(7) },
            observer: log.observer("1")
        )
        #expect(subscription == nil)
        #expect(log.lines == ["1: 7"])
        #expect(pool.count == 0)
    }

    @Test func onlyUnfinishedWorkCanBeJoined() {
        let work = TaskTestWork()
        pool.subscribe(to: "a", job: work.job) { _, _ in }
        work.context.finish(1)
        pool.subscribe(to: "a", job: work.job) { _, _ in }
        pool.subscribe(to: "b", job: work.job) { _, _ in }
        #expect(work.contexts.count == 3)
        #expect(pool.count == 2)
        for context in work.contexts { context.finish(2) }
        #expect(pool.count == 0)
    }

    /// A subscription made while the end is being delivered starts new work.
    @Test func theKeyIsFreeWhenTheEndIsDelivered() {
        let (work, log) = (TaskTestWork(), TaskTestLog())
        pool.subscribe(to: "a", job: work.job) { [pool] event, _ in
            if event.result != nil { pool.subscribe(to: "a", job: work.job, observer: log.observer("new")) }
        }
        work.context.finish(1)
        #expect(work.contexts.count == 2)
        #expect(log.lines == [])
        work.context.finish(2)
        #expect(log.lines == ["new: 2"])
    }

    @Test func deduplicationCanBeDisabled() {
        let pool = WorkPool<String, Int>(isCoalescingEnabled: false)
        let (work, log) = (TaskTestWork(), TaskTestLog())
        pool.subscribe(to: "a", job: work.job, observer: log.observer("1"))
        let second = pool.subscribe(to: "a", job: work.job, observer: log.observer("2"))
        #expect(work.contexts.count == 2)
        #expect(second?.wasCoalesced == false)
        for (value, context) in work.contexts.enumerated() { context.finish(value) }
        #expect(log.lines == ["1: 0", "2: 1"])
    }

    @Test func theFirstSubscriberLeftIsCharged() {
        let (work, shares) = (TaskTestWork(), TaskTestBox<[String]>([]))
        func subscribe(_ name: String) -> WorkSubscription? {
            pool.subscribe(to: "a", job: work.job) { event, wasCoalesced in
                shares.withLock { $0.append("\(name) \(wasCoalesced)") }
            }
        }
        let (first, second, third) = (subscribe("1"), subscribe("2"), subscribe("3"))
        #expect(first?.wasCoalesced == false)
        #expect(second?.wasCoalesced == true)
        first?.cancel()
        #expect(second?.wasCoalesced == false)
        work.context.finish(1)
        #expect(shares.value == ["2 false", "3 true"])
        #expect(second?.wasCoalesced == false)
        #expect(third?.wasCoalesced == true)
    }

    // MARK: - Leaving

    @Test func whenOneOfTwoSubscriptionsAreRemovedTaskNotCancelled() {
        let (work, log) = (TaskTestWork(), TaskTestLog())
        let first = pool.subscribe(to: "a", job: work.job, observer: log.observer("1"))
        pool.subscribe(to: "a", job: work.job, observer: log.observer("2"))
        first?.cancel()
        #expect(work.cancelled == 0)
        work.context.finish(1)
        #expect(log.lines == ["2: 1"])
        #expect(work.cancelled == 0, "what has finished is not cancelled")
    }

    @Test func whenTwoOfTwoSubscriptionsAreRemovedTaskIsCancelled() {
        let (work, log) = (TaskTestWork(), TaskTestLog())
        let first = pool.subscribe(to: "a", job: work.job, observer: log.observer("1"))
        let second = pool.subscribe(to: "a", job: work.job, observer: log.observer("2"))
        first?.cancel()
        first?.cancel()
        #expect(work.cancelled == 0, "leaving twice counts once")
        second?.cancel()
        #expect(work.cancelled == 1)
        #expect(!work.context.isOpen)
        #expect(pool.count == 0)
        work.context.finish(1)
        #expect(log.lines == [])
        work.context.onCancel { work.noteCancellation() }
        #expect(work.cancelled == 2, "a handler that comes too late is called at once")
    }

    /// A subscriber that leaves during the delivery of an event does not receive it any more.
    @Test func anObserverCanMakeAnotherLeave() {
        let (work, log) = (TaskTestWork(), TaskTestLog())
        let second = TaskTestBox<WorkSubscription?>(nil)
        pool.subscribe(to: "a", job: work.job) { _, _ in second.value?.cancel() }
        let subscription = pool.subscribe(to: "a", job: work.job, observer: log.observer("2"))
        second.withLock { $0 = subscription }
        work.context.finish(1)
        #expect(log.lines == [])
    }

    @Test func aNodeWithoutSubscribersIsCancelled() async {
        let (begun, cancelled) = (Promise<Void>(), Promise<Void>())
        let subscription = pool.subscribe(
            to: "a",
            job: .running { context async throws(Failure) in
                await withTaskCancellationHandler {
                    begun.resolve(())
                    await cancelled.value
                } onCancel: {
                    cancelled.resolve(())
                }
                return 1
            }
        ) { _, _ in Issue.record("no task waits") }
        await begun.value
        subscription?.cancel()
        await cancelled.value
        #expect(pool.count == 0)
    }

    // MARK: - Priority

    @Test func thatPriorityEqualMaximumPriorityOfAllSubscriptions() {
        let work = TaskTestWork()
        let first = pool.subscribe(to: "a", priority: .low, job: work.job) { _, _ in }
        #expect(work.context.priority == .low, "a lone one may lower it")
        let second = pool.subscribe(to: "a", priority: .high, job: work.job) { _, _ in }
        #expect(work.context.priority == .high)
        pool.subscribe(to: "a", priority: .veryLow, job: work.job) { _, _ in }
        #expect(work.context.priority == .high)
        second?.setPriority(.veryHigh)
        #expect(work.context.priority == .veryHigh)
        second?.setPriority(.veryLow)
        #expect(work.context.priority == .low)
        second?.setPriority(.normal)
        second?.cancel()
        #expect(work.context.priority == .low, "it drops when the most urgent one leaves")
        first?.cancel()
        #expect(work.context.priority == .veryLow)
        work.context.finish(1)
    }

    // A raised priority reaches the queue.
    @Test func lowPriorityRequestEscalatesWhenHigherPriorityJoins() async throws {
        let queue = TaskQueue(maxConcurrentOperationCount: 1)
        queue.isSuspended = true
        let order = TaskTestBox<[String]>([])
        func subscribe(_ key: String, _ priority: WorkPriority) -> (Promise<Void>, WorkSubscription?) {
            let end = Promise<Void>()
            let job = WorkJob<Int>.starting { context in
                context.enqueue(on: queue) {
                    order.withLock { $0.append(key) }
                    context.finish(1)
                }
            }
            let subscription = pool.subscribe(to: key, priority: priority, job: job) { _, _ in end.resolve(()) }
            return (end, subscription)
        }
        let ends = [subscribe("normal", .normal), subscribe("raised", .low), subscribe("lowered", .veryHigh)]
        let raised = subscribe("raised", .high)
        ends[2].1?.setPriority(.veryLow)
        #expect(queue.pendingCount == 3)
        queue.isSuspended = false
        for (end, _) in ends + [raised] { await end.value }
        #expect(order.value == ["raised", "normal", "lowered"])
    }

    @Test func priorityOfDependencyUpdated() {
        let (upper, lower) = (TaskTestWork(), TaskTestWork())
        let middle = WorkPool<String, Int>()
        let bottom = WorkPool<String, Int>()
        let first = pool.subscribe(
            to: "a",
            priority: .low,
            job: upper.job(
                on: middle,
                "a",
                .starting { $0.depend(on: bottom, key: "a", job: lower.job) { _, _, _ in } }
            )
        ) { _, _ in }
        #expect(lower.context.priority == .low)
        let second = pool.subscribe(to: "a", priority: .veryHigh, job: upper.job) { _, _ in }
        #expect(lower.context.priority == .veryHigh)
        let other = bottom.subscribe(to: "a", priority: .normal, job: lower.job) { _, _ in }
        second?.cancel()
        #expect(lower.context.priority == .normal)
        other?.cancel()
        #expect(lower.context.priority == .low)
        first?.setPriority(.high)
        #expect(lower.context.priority == .high)
        first?.cancel()
        #expect(lower.cancelled == 1)
    }

    @Test func changesOfPriorityThatOvertakeEachOtherEndWithTheLatest() {
        let work = TaskTestWork()
        let subscription = pool.subscribe(to: "a", job: work.job) { _, _ in }
        subscription?.setPriority(.high, revision: 2)
        subscription?.setPriority(.low, revision: 1)
        #expect(work.context.priority == .high)
        subscription?.cancel()
    }
}
