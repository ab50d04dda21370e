import Foundation
import Synchronization
import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

/// The order in which waiters get memory when it is short.
@Suite(.timeLimit(.minutes(1))) struct MemoryBudgetTests {
    private func streamed(_ bytes: Int) -> RenderCost { RenderCost(bytes: bytes, isBuffered: false) }
    private func buffered(_ bytes: Int) -> RenderCost { RenderCost(bytes: bytes, isBuffered: true) }

    /// Starts a task that acquires memory, and returns once it waits or has it.
    private func start(_ budget: MemoryBudget, _ cost: RenderCost, _ done: @escaping @Sendable () -> Void = {}) async
        -> Task<ImagePipeline.Error.Code?, Never>
    {
        let before = budget.counts
        let task = Task { () -> ImagePipeline.Error.Code? in
            do throws(ImagePipeline.Error) {
                try await budget.acquire(cost)
                done()
                return nil
            } catch {
                return error.code
            }
        }
        while budget.counts == before && !task.isCancelled { await Task.yield() }
        return task
    }

    @Test func freeMemoryIsAcquiredAtOnce() throws {
        let budget = MemoryBudget(bytes: 100)
        #expect(try budget.tryAcquire(streamed(60)) && budget.tryAcquire(streamed(40)))
        #expect(try !budget.tryAcquire(streamed(1)))
        budget.release(streamed(40))
        #expect(try !budget.tryAcquire(streamed(41)) && budget.tryAcquire(streamed(40)))
        #expect(budget.counts == .init(bytesInUse: 100, waiting: 0, waited: 0))
    }

    @Test func anAmountThatNeverFitsIsTooCostly() async throws {
        let budget = MemoryBudget(bytes: 100)
        #expect(try budget.tryAcquire(buffered(100)))
        #expect { try budget.tryAcquire(streamed(101)) } throws: { ($0 as? ImagePipeline.Error)?.code == .tooCostly }
        await #expect { () async throws in try await budget.acquire(buffered(101)) } throws: {
            ($0 as? ImagePipeline.Error)?.code == .tooCostly
        }
    }

    @Test func waitersAreServedInTheirOrder() async throws {
        let budget = MemoryBudget(bytes: 100)
        #expect(try budget.tryAcquire(streamed(100)))
        let order = Mutex<[Int]>([])
        var tasks: [Task<ImagePipeline.Error.Code?, Never>] = []
        for (index, bytes) in [70, 20, 50].enumerated() {
            tasks.append(await start(budget, streamed(bytes)) { order.withLock { $0.append(index) } })
        }
        #expect(budget.counts == .init(bytesInUse: 100, waiting: 3, waited: 3))
        #expect(try !budget.tryAcquire(streamed(0)), "nobody overtakes in his own line")
        budget.release(streamed(100))
        #expect(await tasks[0].value == nil)
        #expect(await tasks[1].value == nil)
        #expect(Set(order.withLock { $0 }) == [0, 1])
        #expect(budget.counts == .init(bytesInUse: 90, waiting: 1, waited: 3))
        budget.release(streamed(70))
        #expect(await tasks[2].value == nil)
    }

    @Test func aCancelledWaiterLeavesTheQueue() async throws {
        let budget = MemoryBudget(bytes: 100)
        #expect(try budget.tryAcquire(streamed(50)))
        let large = await start(budget, streamed(90))
        let small = await start(budget, streamed(50))
        #expect(budget.counts.waiting == 2)
        large.cancel()
        #expect(await large.value == .cancelled)
        #expect(await small.value == nil, "who came behind goes on")
        #expect(budget.counts == .init(bytesInUse: 100, waiting: 0, waited: 2))
        let late = Task { () -> Bool in
            withUnsafeCurrentTask { $0?.cancel() }
            return (try? await budget.acquire(streamed(1))) == nil
        }
        #expect(await late.value)
        #expect(budget.counts.bytesInUse == 100)
    }

    @Test func bufferedImagesHaveAQueueOfTheirOwnWithHalfOfTheMemory() async throws {
        let budget = MemoryBudget(bytes: 100)
        #expect(try budget.tryAcquire(buffered(40)))
        let second = await start(budget, buffered(20))
        #expect(try budget.tryAcquire(streamed(30)), "who is cheap does not wait for who is dear")
        budget.release(buffered(40))
        #expect(await second.value == nil)
        budget.release(buffered(20))
        budget.release(streamed(30))
        #expect(try budget.tryAcquire(buffered(100)), "one may have all of it")
    }

    @Test func theCheapDoNotStarveTheDear() async throws {
        let budget = MemoryBudget(bytes: 100)
        #expect(try budget.tryAcquire(streamed(10)))
        let large = await start(budget, buffered(100))
        var overtaken = 0
        while try budget.tryAcquire(streamed(10)) {
            overtaken += 1
            budget.release(streamed(10))
            try #require(overtaken < 1000)
        }
        #expect(overtaken == 64)
        budget.release(streamed(10))
        #expect(await large.value == nil)
        #expect(budget.counts.bytesInUse == 100)
    }

    @Test func aProcessHasHalfOfWhatThereIs() {
        #expect(MemoryBudget.process.bytes >= 512 << 20)
        #expect(MemoryBudget.process.bytes <= max(512 << 20, MachineMemory.limit / 2))
    }

    /// Fault: in a container of 1 GiB on a large machine, decoded images could take 768 MiB.
    @Test func decodedImagesHaveAPartOfWhatThereIs() {
        #expect(ImageCache.defaultCostLimit(of: 1 << 30) == (1 << 30) / 100 * 15)
        #expect(ImageCache.defaultCostLimit(of: 64 << 30) == 768 << 20)
        #expect(ImageCache.defaultCostLimit == ImageCache.defaultCostLimit(of: MachineMemory.limit))
    }

    @Test func theSmallestOfTheGroupsLimitsCounts() {
        func limit(_ files: [String: String]) -> Int { MachineMemory.limit(machine: 1000) { files[$0] } }
        #expect(limit([:]) == 1000)
        let second = ["/proc/self/cgroup": "0::/system.slice/a.service\n"]
        #expect(limit(second) == 1000)
        #expect(limit(second.merging(["/sys/fs/cgroup/system.slice/a.service/memory.max": "400\n"]) { $1 }) == 400)
        #expect(limit(second.merging(["/sys/fs/cgroup/system.slice/memory.max": "300\n"]) { $1 }) == 300)
        #expect(limit(second.merging(["/sys/fs/cgroup/memory.max": "max\n"]) { $1 }) == 1000)
        let first = ["/proc/self/cgroup": "9:name=systemd:/\n7:cpu,memory:/docker/x\n"]
        let file = "/sys/fs/cgroup/memory/memory.limit_in_bytes"
        #expect(limit(first.merging([file: "200\n"]) { $1 }) == 200)
        #expect(limit(first.merging([file: "9223372036854771712\n"]) { $1 }) == 1000)
        #expect(limit(["/proc/self/cgroup": "nonsense\n::\n"]) == 1000)
    }
}
