import Synchronization

/// The staging area with its waiters: callers that wait for room, and callers that wait until their changes are on the
/// disk.
final class DataCacheQueue: Sendable {
    fileprivate struct State {
        var staging = DataCacheStaging()
        var isBeingWritten = false
        /// First come, first served: no change overtakes one that waits for room.
        var forRoom: [Waiter] = []
        var nextID = 0
        var forTicket: [(ticket: DataCacheStaging.Ticket, continuation: CheckedContinuation<Void, Never>)] = []
    }

    fileprivate struct Waiter: Sendable {
        let id: Int
        let name: DataCacheFileName
        let change: DataCacheStaging.Change
        let answer = Promise<Staged>()
    }

    /// The result of an attempt to stage a change.
    enum Staged: Sendable {
        /// - isFirst: no thread is writing, so the caller must start the writer.
        case staged(isFirst: Bool)
        /// There was no room in time, or the task was cancelled.
        case dropped
    }

    private let state = Mutex(State())
    private let limit: Int
    private let wait: Duration
    private let sleep: @Sendable (Duration) async throws -> Void

    /// - Parameters:
    ///   - limit: bytes.
    ///   - wait: how long to wait for room.
    init(limit: Int, wait: Duration, time: TimeSource) {
        self.limit = limit
        self.wait = wait
        sleep = time.sleep
    }

    func change(for name: DataCacheFileName) -> DataCacheStaging.Change? {
        state.withLock { $0.staging.change(for: name) }
    }

    /// Stages a change, which readers see when this returns. Waits while the area is full.
    func stage(_ change: DataCacheStaging.Change, for name: DataCacheFileName) async -> Staged {
        let (isFirst, waiter) = state.withLock { $0.stage(change, name, limit: limit) }
        guard let waiter else { return .staged(isFirst: isFirst) }
        return await withTaskGroup(of: Void.self) { group in
            group.addTask {
                // The sleep ends early if there is room or if the caller's task is cancelled; `giveUp` distinguishes
                // the two.
                try? await self.sleep(self.wait)
                self.giveUp(waiter.id)
            }
            defer { group.cancelAll() }
            return await waiter.answer.value
        }
    }

    /// Stages a change if there is room now.
    func stageAtOnce(_ change: DataCacheStaging.Change, for name: DataCacheFileName) -> Staged {
        state.withLock { $0.stageAtOnce(change, name, limit: limit) }
    }

    /// Stages a removal, which readers see when this returns. It needs no room, as it holds no data; were it dropped,
    /// readers would get an entry that its user has found to be unusable. A change of the same key that waits for room
    /// is older, and is dropped.
    ///
    /// If the disk hangs and very many removals wait, everything is removed in their place.
    ///
    /// - Returns: whether no thread is writing, so that the caller must start the writer.
    func stageRemoval(for name: DataCacheFileName) -> Bool {
        let (isFirst, superseded) = state.withLock { $0.stageRemoval(name, limit: limit) }
        for waiter in superseded { waiter.answer.resolve(.staged(isFirst: false)) }
        return isFirst
    }

    /// Stages the removal of a damaged file, unless another change of its key is staged.
    ///
    /// - Returns: whether no thread is writing, so that the caller must start the writer.
    func stageRemoval(for name: DataCacheFileName, damaged inode: UInt64) -> Bool {
        state.withLock { state in
            if state.staging.change(for: name) != nil { return false }
            state.staging.stage(.removeDamaged(inode: inode), for: name)
            return state.beginWriting()
        }
    }

    /// Hides everything staged or written so far.
    ///
    /// - Returns: whether no thread is writing, so that the caller must start the writer.
    func stageRemoveAll() -> Bool {
        state.withLock { state in
            state.staging.stageRemoveAll()
            return state.beginWriting()
        }
    }

    /// Returns when all changes staged so far, or those of one key, have been carried out.
    func flush(_ name: DataCacheFileName? = nil) async {
        await withCheckedContinuation { continuation in
            let isDone = state.withLock { state in
                let ticket = name.map { state.staging.pending($0) } ?? state.staging.pending
                guard let ticket else { return true }
                state.forTicket.append((ticket, continuation))
                return false
            }
            if isDone { continuation.resume() }
        }
    }

    /// Carries out staged changes, one after the other, until none is left. Called by one thread at a time.
    func writeAll(_ perform: (DataCacheStaging.Work) -> Void) {
        while let work = state.withLock({ $0.next() }) {
            perform(work)
            let (flushed, admitted) = state.withLock { $0.finish(limit: limit) }
            for continuation in flushed { continuation.resume() }
            for waiter in admitted { waiter.answer.resolve(.staged(isFirst: false)) }
        }
    }

    // MARK: -

    private func giveUp(_ id: Int) {
        let waiter = state.withLock { state -> Waiter? in
            guard let index = state.forRoom.firstIndex(where: { $0.id == id }) else { return nil }
            return state.forRoom.remove(at: index)
        }
        waiter?.answer.resolve(.dropped)
    }
}

extension DataCacheQueue.State {
    /// - Returns: whether the caller must start the writer; and a waiter if there is no room.
    fileprivate mutating func stage(
        _ change: DataCacheStaging.Change,
        _ name: DataCacheFileName,
        limit: Int
    ) -> (isFirst: Bool, DataCacheQueue.Waiter?) {
        if case .staged(let isFirst) = stageAtOnce(change, name, limit: limit) { return (isFirst, nil) }
        nextID += 1
        let waiter = DataCacheQueue.Waiter(id: nextID, name: name, change: change)
        forRoom.append(waiter)
        return (false, waiter)
    }

    fileprivate mutating func stageAtOnce(
        _ change: DataCacheStaging.Change,
        _ name: DataCacheFileName,
        limit: Int
    ) -> DataCacheQueue.Staged {
        guard forRoom.isEmpty, staging.hasRoom(for: change, name, limit: limit) else { return .dropped }
        staging.stage(change, for: name)
        return .staged(isFirst: beginWriting())
    }

    /// - Returns: whether the caller must start the writer; and the waiters of the same key.
    fileprivate mutating func stageRemoval(
        _ name: DataCacheFileName,
        limit: Int
    ) -> (isFirst: Bool, superseded: [DataCacheQueue.Waiter]) {
        let superseded = forRoom.filter { $0.name == name }
        forRoom.removeAll { $0.name == name }
        staging.stage(.remove, for: name)
        if staging.hasTooMany(limit: limit) { staging.stageRemoveAll() }
        return (beginWriting(), superseded)
    }

    fileprivate mutating func beginWriting() -> Bool {
        defer { isBeingWritten = true }
        return !isBeingWritten
    }

    fileprivate mutating func next() -> DataCacheStaging.Work? {
        let work = staging.next()
        isBeingWritten = work != nil
        return work
    }

    /// Ends the current change, and admits the waiters for which there is room now.
    fileprivate mutating func finish(
        limit: Int
    ) -> (flushed: [CheckedContinuation<Void, Never>], admitted: [DataCacheQueue.Waiter]) {
        staging.finish()
        let done = staging.done
        let flushed = forTicket.filter { $0.ticket <= done }.map(\.continuation)
        forTicket.removeAll { $0.ticket <= done }
        var admitted: [DataCacheQueue.Waiter] = []
        while let waiter = forRoom.first, staging.hasRoom(for: waiter.change, waiter.name, limit: limit) {
            staging.stage(waiter.change, for: waiter.name)
            admitted.append(forRoom.removeFirst())
        }
        return (flushed, admitted)
    }
}
