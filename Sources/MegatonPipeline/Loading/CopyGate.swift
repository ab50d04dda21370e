internal import Foundation

/// Admits copies of large bodies by the memory that renders share: a cache takes bytes in memory, once or twice.
///
/// A task that holds memory does not wait here, and an admitted one does not wait for more: there is no deadlock.
struct CopyGate: Sendable {
    private let budget: MemoryBudget
    private let threshold: Int

    /// The bytes themselves, an envelope with them, and what goes to a socket.
    private static let copies = 3

    /// - Parameter threshold: smaller bodies are not asked about, bytes.
    init(_ budget: MemoryBudget, threshold: Int) {
        self.budget = budget
        self.threshold = threshold
    }

    /// Does what copies the bytes, as soon as there is memory for it. A body that is larger than the whole budget waits
    /// for all of it.
    ///
    /// - Returns: false if nothing was done, as the calling task was cancelled.
    @discardableResult
    func perform(_ data: Data, _ work: () async -> Void) async -> Bool {
        guard data.count > threshold else {
            await work()
            return true
        }
        let cost = RenderCost(bytes: min(data.count * Self.copies, budget.bytes), isDear: false)
        do throws(ImagePipeline.Error) {
            try await budget.take(cost)
        } catch {
            return false
        }
        defer { budget.give(cost) }
        await work()
        SpoolFile.releasePages(of: data)
        return true
    }
}
