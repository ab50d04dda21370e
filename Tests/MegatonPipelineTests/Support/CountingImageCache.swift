@testable import MegatonPipeline

/// A cache of decoded images that records each call.
final class CountingImageCache: ImageCaching {
    private struct State {
        var entries: [ImageCacheKey: ImageContainer] = [:]
        var reads = 0
        var writes: [ImageCacheKey] = []
    }

    private let state = TaskTestBox(State())

    var reads: Int { state.value.reads }
    var writes: [ImageCacheKey] { state.value.writes }
    var keys: Set<ImageCacheKey> { Set(state.value.entries.keys) }

    func forgetCounts() {
        state.withLock { state in
            state.reads = 0
            state.writes = []
        }
    }

    subscript(key: ImageCacheKey) -> ImageContainer? {
        get {
            state.withLock { state in
                state.reads += 1
                return state.entries[key]
            }
        }
        set {
            state.withLock { state in
                state.writes.append(key)
                state.entries[key] = newValue
            }
        }
    }

    func removeAll() { state.withLock { $0.entries = [:] } }
}
