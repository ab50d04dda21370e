import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Which request is granted next, and that waiters hold nothing.
@Suite(.timeLimit(.minutes(1))) struct RenderAdmissionTests {
    private func streamed(_ bytes: Int) -> RenderCost { RenderCost(bytes: bytes, isBuffered: false) }
    private func buffered(_ bytes: Int) -> RenderCost { RenderCost(bytes: bytes, isBuffered: true) }

    // MARK: - Nothing is held during a wait

    @Test func aWaiterForMemoryHoldsNoSlot() {
        let probe = AdmissionProbe(widths: 1)
        probe.ask("other", 0, streamed(80))
        probe.ask("render", 1)
        #expect(probe.runningCount(1) == 1)
        probe.upgrade("render", streamed(50))
        #expect(probe.runningCount(1) == 0 && probe.counts.waiting == 1)
        probe.ask("small", 1)
        #expect(probe.granted == ["other", "render", "small"])
        probe.release("other")
        #expect(probe.counts == .init(bytesInUse: 0, waiting: 1, waited: 1), "its slot is in use")
        probe.release("small")
        #expect(probe.counts == .init(bytesInUse: 50, waiting: 0, waited: 1) && probe.runningCount(1) == 1)
        probe.release("render")
        #expect(probe.isIdle)
    }

    @Test func aWaiterForASlotHoldsNoMemory() {
        let probe = AdmissionProbe(widths: 1)
        probe.ask("first", 1)
        probe.ask("render", 1, streamed(60))
        #expect(probe.counts.bytesInUse == 0 && probe.counts.waiting == 1)
        probe.ask("copy", 0, streamed(100))
        #expect(probe.granted == ["first", "copy"], "memory is not idle until the slot is free")
        probe.release("first")
        #expect(probe.runningCount(1) == 0, "nor is a slot until the memory is free")
        probe.release("copy")
        #expect(probe.granted == ["first", "copy", "render"])
        #expect(probe.counts.bytesInUse == 60 && probe.runningCount(1) == 1)
    }

    @Test func memoryIsAcquiredWithoutAWaitIfItIsFree() {
        let probe = AdmissionProbe(widths: 1)
        probe.ask("render", 1)
        probe.upgrade("render", buffered(100))
        #expect(probe.counts == .init(bytesInUse: 100, waiting: 0, waited: 0) && probe.runningCount(1) == 1)
        probe.release("render")
        #expect(probe.isIdle)
    }

    // MARK: - Order

    @Test func waitersStartByPriorityAndThenByAge() {
        let probe = AdmissionProbe(widths: 1)
        probe.ask("first", 1)
        probe.ask("low", 1, priority: .low)
        probe.ask("buffered", 1, buffered(30))
        probe.ask("slot", 1)
        probe.ask("streamed", 1, streamed(30))
        probe.ask("high", 1, streamed(30), priority: .high)
        let order = ["first", "high", "buffered", "slot", "streamed", "low"]
        for (index, name) in order.enumerated() {
            #expect(probe.granted == Array(order.prefix(index + 1)))
            probe.release(name)
        }
        #expect(probe.isIdle)
    }

    @Test func aRenderContinuesBeforeYoungerOnesBegin() {
        let probe = AdmissionProbe(widths: 1)
        probe.ask("copy", 0, streamed(100))
        probe.ask("render", 1)
        probe.ask("second", 1)
        probe.ask("third", 1)
        probe.upgrade("render", streamed(10))
        #expect(probe.granted == ["copy", "render", "second"])
        probe.release("copy")
        probe.release("second")
        #expect(probe.granted == ["copy", "render", "second", "render"])
        probe.release("render")
        #expect(probe.granted.last == "third")
    }

    @Test func memoryThatIsReleasedStartsAllThatFit() {
        let probe = AdmissionProbe(widths: 2)
        probe.ask("copy", 0, streamed(100))
        probe.ask("buffered", 1, buffered(60))
        probe.ask("streamed", 1, streamed(40))
        probe.ask("behind", 1, streamed(1))
        probe.release("copy")
        #expect(probe.granted == ["copy", "buffered", "streamed"])
        probe.release("buffered")
        #expect(probe.granted.last == "behind")
    }

    @Test func aPriorityCanChangeDuringTheWait() {
        let probe = AdmissionProbe(widths: 3)
        probe.ask("copy", 0, streamed(60))
        probe.ask("large", 1, streamed(50))
        probe.ask("small", 1, streamed(20))
        probe.ask("tiny", 1, streamed(10))
        #expect(probe.granted == ["copy"], "none overtakes the large one")
        probe.setPriority(.high, of: "small")
        #expect(probe.granted == ["copy", "small"])
        probe.setPriority(.low, of: "large")
        #expect(probe.granted == ["copy", "small", "tiny"])
    }

    @Test func aPriorityThatWasOvertakenByALaterOneIsDropped() {
        let probe = AdmissionProbe(widths: 1)
        probe.ask("first", 1)
        probe.ask("second", 1)
        probe.ask("third", 1)
        probe.setPriority(.veryLow, revision: 2, of: "third")
        probe.setPriority(.veryHigh, revision: 1, of: "third")
        probe.release("first")
        #expect(probe.granted == ["first", "second"])
    }

    @Test func aCancelledWaiterLetsOthersPass() {
        let probe = AdmissionProbe(widths: 2)
        probe.ask("copy", 0, streamed(50))
        probe.ask("large", 1, streamed(90))
        probe.ask("small", 1, streamed(50))
        probe.cancel("large")
        #expect(probe.granted == ["copy", "small"] && probe.cancelled == ["large"])
        probe.cancel("small")
        #expect(probe.cancelled == ["large"], "it does not wait any more")
    }

    // MARK: - Starvation

    @Test func aHugeRenderDoesNotStarveBesideSmallOnes() {
        let probe = AdmissionProbe(widths: 2)
        probe.ask("0", 1)
        probe.upgrade("0", streamed(10))
        probe.ask("huge", 1)
        probe.upgrade("huge", streamed(100))
        for index in 1...20 {
            probe.ask("\(index)", 1)
            // All read their headers, and queue behind it.
            if probe.granted.last == "\(index)" { probe.upgrade("\(index)", streamed(10)) }
        }
        #expect(probe.counts.bytesInUse == 10 && probe.counts.waiting == 21)
        probe.release("0")
        #expect(probe.granted.last == "huge" && probe.counts.bytesInUse == 100)
        probe.release("huge")
        #expect(probe.counts.bytesInUse == 20 && probe.runningCount(1) == 2)
    }

    @Test func theOtherLineOvertakesSixtyFourTimes() {
        let probe = AdmissionProbe(widths: 2)
        probe.ask("first", 1, streamed(10))
        probe.ask("huge", 1, buffered(100))
        var overtaken = 0
        for index in 0..<100 {
            probe.ask("\(index)", 1, streamed(10))
            guard probe.granted.last == "\(index)" else { break }
            overtaken += 1
            probe.release("\(index)")
        }
        #expect(overtaken == 64)
        probe.release("first")
        #expect(probe.granted.last == "huge")
        probe.release("huge")
        #expect(probe.granted.last == "64")
    }

    // MARK: - Several pipelines

    @Test func pipelinesShareTheMemoryAndHaveTheirOwnSlots() {
        let probe = AdmissionProbe(widths: 1, 1)
        probe.ask("a", 1)
        probe.ask("render a", 1, streamed(60))
        probe.ask("b", 2, streamed(60))
        #expect(probe.granted == ["a", "b"], "a full pipeline stops no other one")
        probe.release("a")
        probe.ask("render b", 2, streamed(10))
        #expect(probe.granted == ["a", "b"])
        probe.release("b")
        #expect(probe.granted == ["a", "b", "render a", "render b"])
        #expect(probe.runningCount(1) == 1 && probe.runningCount(2) == 1 && probe.counts.bytesInUse == 70)
    }

    /// Fault: if all slots of a pipeline were in use without end, the renders of the others stopped.
    @Test func aFullPipelineReservesMemoryOnlyWhenItHasASlot() {
        let probe = AdmissionProbe(widths: 1, 2)
        probe.ask("hanging", 1)
        probe.ask("render", 1, streamed(60))
        for index in 0..<200 {
            probe.ask("\(index)", 2, streamed(30))
            probe.release("\(index)")
        }
        #expect(probe.granted.count == 201)
        probe.ask("large", 2, streamed(50))
        #expect(probe.granted.last == "large", "no slot is free for the render")
        probe.release("hanging")
        probe.ask("buffered", 2, buffered(5))
        probe.release("large")
        #expect(probe.granted.suffix(2) == ["render", "buffered"])
        #expect(probe.counts.bytesInUse == 65)
    }

    @Test func theLastFreeSlotIsKeptForAWaiterThatWasOvertakenTooOften() {
        let probe = AdmissionProbe(widths: 1, 1)
        probe.ask("other", 2, streamed(60))
        probe.ask("render", 1, streamed(50))
        for index in 0..<64 {
            probe.ask("slot \(index)", 1)
            probe.ask("\(index)", 0, buffered(10))
            #expect(probe.granted.last == "\(index)" && probe.runningCount(1) == 1)
            probe.release("\(index)")
            probe.release("slot \(index)")
        }
        probe.ask("slot", 1)
        probe.ask("urgent", 1, priority: .high)
        #expect(probe.granted.last == "urgent")
        probe.release("urgent")
        probe.ask("copy", 0, buffered(10))
        #expect(probe.runningCount(1) == 0 && probe.counts.bytesInUse == 60)
        probe.release("other")
        #expect(probe.granted.suffix(2) == ["render", "copy"])
        probe.release("render")
        #expect(probe.granted.last == "slot")
    }

    /// Fault: a waiter that could start because of a grant waited until the next release.
    @Test func aGrantThatTakesTheLastSlotLetsOthersPass() {
        let probe = AdmissionProbe(widths: 1, 1)
        probe.ask("copy", 0, streamed(60))
        probe.ask("render", 1, streamed(50))
        probe.ask("other", 2, streamed(10))
        #expect(probe.granted == ["copy"], "a render before it waits for memory, and has a slot")
        probe.ask("slot", 1)
        #expect(Set(probe.granted) == ["copy", "slot", "other"])
    }

    /// Fault: a suspended pipeline stopped renders of others, and its own running ones.
    @Test func aSuspendedQueueReservesNothing() {
        let probe = AdmissionProbe(widths: 3, 1)
        probe.ask("running", 1)
        probe.ask("large", 1, streamed(40))
        probe.ask("render", 1, streamed(90))
        #expect(probe.granted == ["running", "large"])
        for index in 0..<64 {
            probe.ask("\(index)", 2, buffered(10))
            probe.release("\(index)")
        }
        probe.admission.setSuspended(true, queue: 1)
        probe.ask("other", 2, streamed(30))
        #expect(probe.granted.last == "other")
        probe.upgrade("running", streamed(30))
        #expect(probe.counts == .init(bytesInUse: 100, waiting: 1, waited: 1) && probe.runningCount(1) == 2)
    }

    @Test func aSuspendedQueueStartsNothing() {
        let probe = AdmissionProbe(widths: 1)
        probe.admission.setSuspended(true, queue: 1)
        probe.ask("slot", 1)
        probe.ask("both", 1, streamed(10))
        #expect(probe.granted.isEmpty && probe.admission.pendingCount(queue: 1) == 1)
        probe.admission.setSuspended(false, queue: 1)
        #expect(probe.granted == ["slot"])
        probe.release("slot")
        #expect(probe.granted == ["slot", "both"])
    }

    // MARK: - Random order

    /// Each request is granted or cancelled once; limits hold at any time; at the end nothing is in use.
    @Test(arguments: UInt64(0)..<20) func nothingIsLostInAnyOrder(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let probe = AdmissionProbe(widths: 1, 3)
        var waiting: Set<String> = []
        func settle() {
            waiting.subtract(probe.held)
            waiting.subtract(probe.cancelled)
        }
        for step in 0..<2_000 {
            let priority = WorkPriority.allCases[Int.random(in: 0..<5, using: &random)]
            let cost = RenderCost(bytes: Int.random(in: 1...100, using: &random), isBuffered: .random(using: &random))
            let held = probe.held.sorted().randomElement(using: &random)
            let waiter = waiting.sorted().randomElement(using: &random)
            switch (Int.random(in: 0..<10, using: &random), held, waiter) {
            case (0...3, _, _):
                let queue = Int.random(in: 0...2, using: &random)
                let needsMemory = queue == 0 || .random(using: &random)
                waiting.insert("\(step)")
                probe.ask("\(step)", queue, needsMemory ? cost : nil, priority: priority)
            case (4, let name?, _) where probe.needsSlotAlone(name):
                waiting.insert(name)
                probe.upgrade(name, cost)
            case (4...7, let name?, _): probe.release(name)
            case (8, _, let name?): probe.cancel(name)
            case (9, _, let name?): probe.setPriority(priority, of: name)
            default: break
            }
            settle()
            #expect(probe.counts.bytesInUse <= 100 && probe.runningCount(1) <= 1 && probe.runningCount(2) <= 3)
            #expect(waiting.isEmpty || !probe.held.isEmpty, "one of them could start")
        }
        while let name = probe.held.first {
            probe.release(name)
            settle()
        }
        #expect(waiting.isEmpty && probe.isIdle)
    }
}

/// Requests of a test by name, in queues of 100 bytes: 0 needs no slot, the others are numbered from 1.
private final class AdmissionProbe: Sendable {
    private struct State {
        var requests: [String: RenderAdmission.Request] = [:]
        var granted: [String] = []
        var held: Set<String> = []
        var cancelled: [String] = []
    }

    let admission = RenderAdmission(bytes: 100)
    private let queues: [Int]
    private let state = TaskTestBox(State())

    init(widths: Int...) { queues = widths.map(admission.addQueue) }

    /// Names in the order of their grants; twice if a render was granted memory after a wait.
    var granted: [String] { state.value.granted }
    /// Requests that have been granted and not released.
    var held: Set<String> { state.value.held }
    var cancelled: [String] { state.value.cancelled }
    var counts: MemoryBudget.Counts { admission.counts }
    var isIdle: Bool {
        counts.bytesInUse == 0 && counts.waiting == 0
            && queues.allSatisfy { runningCount($0) == 0 && admission.pendingCount(queue: $0) == 0 }
    }

    func runningCount(_ queue: Int) -> Int { admission.runningCount(queue: queue) }
    func needsSlotAlone(_ name: String) -> Bool { state.value.requests[name]?.cost == nil }

    func ask(_ name: String, _ queue: Int, _ cost: RenderCost? = nil, priority: WorkPriority = .normal) {
        let number = admission.nextNumber()
        let request = RenderAdmission.Request(number: number, queue: queue, cost: cost, priority: priority)
        state.withLock { $0.requests[name] = request }
        if admission.acquire(request, { self.resume(name, $0) }) { resume(name, true) }
    }

    /// Asks for memory for a request that has a slot.
    func upgrade(_ name: String, _ cost: RenderCost) {
        guard let old = state.value.requests[name] else { return }
        let request = RenderAdmission.Request(
            number: old.number,
            queue: old.queue,
            cost: cost,
            priority: old.priority
        )
        state.withLock {
            $0.requests[name] = request
            $0.held.remove(name)
        }
        let isGranted = admission.acquire(request, holdsSlot: true) { self.resume(name, $0) }
        if isGranted { _ = state.withLock { $0.held.insert(name).inserted } }
    }

    func release(_ name: String) {
        let request = state.withLock { state in state.held.remove(name) == nil ? nil : state.requests[name] }
        if let request { admission.release(queue: request.queue, request.cost) }
    }

    func cancel(_ name: String) {
        if let request = state.value.requests[name] { admission.cancel(request.number) }
    }

    func setPriority(_ priority: WorkPriority, revision: UInt64? = nil, of name: String) {
        guard let request = state.value.requests[name] else { return }
        admission.setPriority(priority, revision: revision, of: request.number)
    }

    private func resume(_ name: String, _ isGranted: Bool) {
        state.withLock {
            guard isGranted else { return $0.cancelled.append(name) }
            $0.granted.append(name)
            $0.held.insert(name)
        }
    }
}
