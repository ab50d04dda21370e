import Foundation
import Synchronization

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline

/// Records the loads reported to a loader's delegate.
final class LoadWatch: DataLoader.Delegate {
    struct Load: Sendable {
        let url: URL
        let timings: LoadTimings
        let error: (any Error)?
    }

    private let state = Mutex<(loads: [Load], waiting: [(Int, CheckedContinuation<Void, Never>)])>(([], []))

    var loads: [Load] { state.withLock { $0.loads } }

    func loadDidEnd(_ url: URL, timings: LoadTimings, error: (any Error)?) {
        let woken = state.withLock { state in
            state.loads.append(Load(url: url, timings: timings, error: error))
            let woken = state.waiting.filter { $0.0 <= state.loads.count }
            state.waiting.removeAll { $0.0 <= state.loads.count }
            return woken
        }
        for (_, continuation) in woken { continuation.resume() }
    }

    func waitForLoads(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isReached = state.withLock { state in
                if state.loads.count >= count { return true }
                state.waiting.append((count, continuation))
                return false
            }
            if isReached { continuation.resume() }
        }
    }
}
