@testable import MegatonCore
@testable import MegatonPipeline

/// Work that reports its start, waits for `open`, and does not stop when it is cancelled.
struct TaskTestGate: Sendable {
    let begun = Promise<Void>()
    let open = Promise<Void>()
    let wasCancelled = Promise<Bool>()

    func pass() async {
        begun.resolve(())
        await open.value
    }

    func passUnlessCancelled() async -> Bool {
        await withTaskCancellationHandler {
            await pass()
        } onCancel: {
            open.resolve(())
        }
        return Task.isCancelled
    }

    func end(wasCancelled: Bool) { self.wasCancelled.resolve(wasCancelled) }
}
