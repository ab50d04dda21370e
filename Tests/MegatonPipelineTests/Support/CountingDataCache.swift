import Foundation

@testable import MegatonCore
@testable import MegatonPipeline

/// An in-memory cache that records each call.
final class CountingDataCache: DataCaching {
    private struct State {
        var entries: [String: Data] = [:]
        var lookups: [[String]] = []
        var writes: [String] = []
        var held: Set<String> = []
        var isOpen: [Promise<Void>] = []
    }

    private let state = TaskTestBox(State())

    var entries: [String: Data] { state.value.entries }
    /// The keys of each lookup, except lookups of partial downloads, which precede each request to the origin.
    var lookups: [[String]] { state.value.lookups.filter { !$0.allSatisfy(Self.isPartial) } }
    /// The keys of each lookup.
    var allLookups: [[String]] { state.value.lookups }
    var writes: [String] { state.value.writes }
    /// Entries left by interrupted downloads.
    var partials: [Data] { entries.filter { Self.isPartial($0.key) }.map(\.value) }

    private static func isPartial(_ key: String) -> Bool { key.hasPrefix("p:") }

    func forgetCounts() {
        state.withLock { state in
            state.lookups = []
            state.writes = []
        }
    }

    /// Suspends lookups of these keys from now on.
    func hold(_ keys: [String]) { state.withLock { $0.held.formUnion(keys) } }

    func release() {
        let waiting = state.withLock { state in
            state.held = []
            defer { state.isOpen = [] }
            return state.isOpen
        }
        for gate in waiting { gate.resolve(()) }
    }

    func corrupt(_ key: String, _ data: Data) { state.withLock { $0.entries[key] = data } }

    func cachedData(for key: String) async -> Data? { await cachedData(for: [key])[0] }

    func cachedData(for keys: [String]) async -> [Data?] {
        let gate = state.withLock { state -> Promise<Void>? in
            state.lookups.append(keys)
            if state.held.isDisjoint(with: keys) { return nil }
            let gate = Promise<Void>()
            state.isOpen.append(gate)
            return gate
        }
        await gate?.value
        return state.withLock { state in keys.map { state.entries[$0] } }
    }

    func storeData(_ data: Data, for key: String) async {
        state.withLock { state in
            state.writes.append(key)
            state.entries[key] = data
        }
    }

    func removeData(for key: String) async { state.withLock { $0.entries[key] = nil } }

    func removeAll() async { state.withLock { $0.entries = [:] } }
}
