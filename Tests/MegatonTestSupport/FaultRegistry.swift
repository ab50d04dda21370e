import NIOCore
import Synchronization

/// What the connections of a ``FaultProxy`` share: the settings, and who they are.
final class FaultRegistry: Sendable {
    private struct State: Sendable {
        var settings = FaultSettings()
        var lastID = 0
        var connections: [Int: NIOLoopBound<FaultConnection>] = [:]
        /// Those whose client is still there: a ghost's is not.
        var clients: Set<Int> = []
        var waiting: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let state = Mutex(State())

    var settings: FaultSettings { state.withLock { $0.settings } }
    var clientCount: Int { state.withLock { $0.clients.count } }

    /// Changes the settings and lets every connection go on under the new ones.
    func change(_ edit: (inout FaultSettings) -> Void) {
        state.withLock { edit(&$0.settings) }
        forEach { $0.refresh() }
    }

    /// Does something with each connection there is, on its event loop.
    func forEach(_ action: @escaping @Sendable (FaultConnection) -> Void) {
        let connections = state.withLock { Array($0.connections.values) }
        for connection in connections {
            connection.eventLoop.execute { action(connection.value) }
        }
    }

    /// The new connection's number; nil once the proxy was stopped.
    func add(_ connection: NIOLoopBound<FaultConnection>) -> Int? {
        let (id, woken) = state.withLock { state -> (Int?, [CheckedContinuation<Void, Never>]) in
            if state.settings.isStopped { return (nil, []) }
            state.lastID += 1
            state.connections[state.lastID] = connection
            state.clients.insert(state.lastID)
            let count = state.clients.count
            let woken = state.waiting.filter { $0.count <= count }.map(\.continuation)
            state.waiting.removeAll { $0.count <= count }
            return (state.lastID, woken)
        }
        for continuation in woken { continuation.resume() }
        return id
    }

    /// The client is gone; the side of the server may stay.
    func removeClient(_ id: Int) {
        state.withLock { _ = $0.clients.remove(id) }
    }

    func remove(_ id: Int) {
        state.withLock { state in
            state.clients.remove(id)
            state.connections[id] = nil
        }
    }

    /// Returns when so many clients are connected.
    func waitForClients(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isReached = state.withLock { state in
                if state.clients.count >= count { return true }
                state.waiting.append((count, continuation))
                return false
            }
            if isReached { continuation.resume() }
        }
    }
}
