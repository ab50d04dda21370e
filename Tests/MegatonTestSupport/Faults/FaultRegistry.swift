import NIOCore
import Synchronization

/// State shared by the connections of a ``FaultProxy``: the settings, and the set of connections.
final class FaultRegistry: Sendable {
    private struct State: Sendable {
        var settings = FaultSettings()
        var lastID = 0
        var connections: [Int: NIOLoopBound<FaultConnection>] = [:]
        /// Connections whose client is still connected, so without ghosts.
        var clients: Set<Int> = []
        var waiting: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let state = Mutex(State())

    var settings: FaultSettings { state.withLock { $0.settings } }
    var clientCount: Int { state.withLock { $0.clients.count } }

    /// Changes the settings and applies them to every connection.
    func change(_ edit: (inout FaultSettings) -> Void) {
        state.withLock { edit(&$0.settings) }
        forEach { $0.refresh() }
    }

    /// Runs an action for each current connection, on its event loop.
    func forEach(_ action: @escaping @Sendable (FaultConnection) -> Void) {
        let connections = state.withLock { Array($0.connections.values) }
        for connection in connections {
            connection.eventLoop.execute { action(connection.value) }
        }
    }

    /// - Returns: the new connection's number; nil once the proxy was stopped.
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

    /// Removes a client that is gone; the server's side may stay.
    func removeClient(_ id: Int) {
        state.withLock { _ = $0.clients.remove(id) }
    }

    func remove(_ id: Int) {
        state.withLock { state in
            state.clients.remove(id)
            state.connections[id] = nil
        }
    }

    /// Returns once `count` clients are connected.
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
