internal import Foundation

/// Limits copies of large bodies by the memory budget of renders: a cache needs the bytes in memory, once or twice.
///
/// No task waits here while it holds memory, and an admitted one does not wait for more, so there is no deadlock.
struct CopyGate: Sendable {
    private let budget: MemoryBudget
    private let threshold: Int

    /// The bytes themselves, an envelope with them, and the data written to a socket.
    private static let copies = 3

    /// - Parameter threshold: size in bytes up to which bodies are admitted at once.
    init(_ budget: MemoryBudget, threshold: Int) {
        self.budget = budget
        self.threshold = threshold
    }

    /// Runs work that copies the bytes, as soon as there is memory for it. If the copies exceed the whole budget, it
    /// waits for all of it.
    ///
    /// Copies go before all renders: requests of any priority may wait for the load, and there is no aging.
    ///
    /// - Returns: false if the work was not run, because the calling task was cancelled.
    @discardableResult
    func perform(_ data: Data, _ work: () async -> Void) async -> Bool {
        guard data.count > threshold else {
            await work()
            return true
        }
        let cost = RenderCost(bytes: min(data.count * Self.copies, budget.bytes), isBuffered: false)
        do throws(ImageError) {
            try await budget.acquire(cost, priority: .veryHigh)
        } catch {
            return false
        }
        defer { budget.release(cost) }
        await work()
        SpoolFile.releasePages(of: data)
        return true
    }
}
