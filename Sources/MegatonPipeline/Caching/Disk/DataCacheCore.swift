internal import Foundation
import Synchronization

/// The implementation of a `DataCache`. It outlives its owner until all staged changes are on the disk.
///
/// One thread changes files, several read them. Reads never consult the index, so that they also find files that
/// another process has added.
final class DataCacheCore: Sendable {
    let folder: DataCacheFolder
    let faults: DataCacheFaults
    private let configuration: DataCache.Configuration
    private let time: TimeSource
    private let queue: DataCacheQueue
    private let index = Mutex(DataCacheIndex())
    private let limits: Mutex<Limits>
    private let readers: ThreadPool
    private let writer = ThreadPool(name: "cache-write", count: 1)

    private struct Limits {
        /// Maximum size on the disk, bytes.
        var size: Int
        /// Whether the folder has been scanned once.
        var isLoaded = false
        /// Bytes written since the last scan began.
        var written = 0

        /// Whether so much was written that other processes, which share the folder, may have filled it by now.
        var needsScan: Bool { isLoaded && written > max(size / 32, Self.leastWritten) }

        /// Bytes. A scan takes as long as many writes, so that a small cache is scanned less often.
        private static let leastWritten = 16 << 20
    }

    init(
        _ folder: DataCacheFolder,
        _ configuration: DataCache.Configuration,
        _ faults: DataCacheFaults,
        _ time: TimeSource
    ) {
        self.folder = folder
        self.faults = faults
        self.configuration = configuration
        self.time = time
        queue = DataCacheQueue(limit: configuration.stagingLimit, wait: configuration.stagingWait, time: time)
        limits = Mutex(Limits(size: configuration.sizeLimit))
        readers = ThreadPool(name: "cache-read", count: max(1, configuration.readConcurrency))
    }

    deinit {
        readers.stop()
        writer.stop()
    }

    // MARK: - Reading

    func data(_ names: [DataCacheFileName?]) async -> [Data?] {
        var found: [Data?] = Array(repeating: nil, count: names.count)
        var onDisk: [(place: Int, name: DataCacheFileName)] = []
        for (place, name) in names.enumerated() {
            guard let name else { continue }
            switch queue.change(for: name) {
            case .store(let data): found[place] = data
            case .remove, .removeDamaged: break
            case nil: onDisk.append((place, name))
            }
        }
        if onDisk.isEmpty { return found }
        let files = onDisk
        // `run` throws only if the task is cancelled, which counts as a miss.
        let readings = (try? await readers.run { files.map { self.read($0.name) } }) ?? []
        for (file, reading) in zip(files, readings) {
            switch reading {
            case .found(let data, _): found[file.place] = data
            case .damaged(let info): drop(file.name, info)
            case .missing: break
            }
        }
        return found
    }

    func contains(_ name: DataCacheFileName) async -> Bool {
        switch queue.change(for: name) {
        case .store: return true
        case .remove, .removeDamaged: return false
        // `run` throws only if the task is cancelled, which counts as a miss.
        case nil: return (try? await readers.run { self.folder.contains(name) }) ?? false
        }
    }

    private func read(_ name: DataCacheFileName) -> DataCacheFolder.Reading {
        do {
            let reading = try folder.read(name)
            guard case .found(_, let info) = reading else {
                if case .missing = reading { index.withLock { $0.remove(name) } }
                return reading
            }
            let date = time.date()
            // If the file is deleted at this moment, the index keeps a wrong entry until the next sweep.
            let note = index.withLock { $0.read(name, info, date: date) }
            if let note { attempt { () throws(DataCacheFault) in try folder.touch(name, used: note) } }
            return reading
        } catch {
            faults.note(error)
            return .missing
        }
    }

    /// Deletes a damaged file unless another one has replaced it: on the writing thread, so that no write of this
    /// object interferes, and later, as a read does not wait for writes.
    private func drop(_ name: DataCacheFileName, _ info: DataCacheFolder.Info) {
        faults.note(DataCacheFault("read", folder.path(of: name), reason: "the file is damaged and is deleted"))
        if queue.stageRemoval(for: name, damaged: info.inode) { startWriting() }
    }

    // MARK: - Changing

    func stage(_ data: Data, for name: DataCacheFileName) async {
        note(await queue.stage(.store(data), for: name), name)
    }

    func stageAtOnce(_ data: Data, for name: DataCacheFileName) {
        note(queue.stageAtOnce(.store(data), for: name), name)
    }

    private func note(_ staged: DataCacheQueue.Staged, _ name: DataCacheFileName) {
        switch staged {
        case .staged(let isFirst): if isFirst { startWriting() }
        case .dropped:
            faults.note(
                DataCacheFault("stage", folder.path(of: name), reason: "the disk is too slow; the entry is dropped")
            )
        }
    }

    func stageRemoval(for name: DataCacheFileName) {
        if queue.stageRemoval(for: name) { startWriting() }
    }

    func stageRemoveAll() {
        if queue.stageRemoveAll() { startWriting() }
    }

    func flush(_ name: DataCacheFileName? = nil) async { await queue.flush(name) }

    private func startWriting() {
        // Unstructured because callers of `storeData` do not wait for the disk. At most one such task runs; it ends
        // when all staged changes are written. It is never cancelled, and since it holds `self`, the writer does not
        // stop before it ends.
        Task { try? await writer.run { self.queue.writeAll(self.perform) } }
    }

    private func perform(_ work: DataCacheStaging.Work) {
        switch work {
        case .change(let name, .store(let data)): write(data, name)
        case .change(let name, .remove): remove(name)
        case .change(let name, .removeDamaged(let inode)):
            attempt { () throws(DataCacheFault) in try folder.remove(name, inode: inode) }
            if !folder.contains(name) { index.withLock { $0.remove(name) } }
        case .removeAll:
            for folder in UInt8.min ... .max {
                for name in scan(folder).keys { remove(name) }
            }
        }
    }

    private func write(_ data: Data, _ name: DataCacheFileName) {
        let date = time.date()
        let used = index.withLock { $0.stamp(date) }
        do {
            let info = try folder.write(data, name, used: used)
            index.withLock { $0.wrote(name, info, used: used) }
            guard configuration.isSweepEnabled else { return }
            trim()
            let needsScan = limits.withLock { limits in
                limits.written += data.count
                guard limits.needsScan else { return false }
                limits.written = 0
                return true
            }
            // Unstructured because the scan is work of this thread. It takes only as long as it takes to read the
            // folder, and is never cancelled.
            if needsScan { Task { await self.sweep(isAsked: false) } }
        } catch {
            faults.note(error)
            // The older entry must not become visible again.
            remove(name)
        }
    }

    private func remove(_ name: DataCacheFileName) {
        if attempt({ () throws(DataCacheFault) in try folder.remove(name) }) { index.withLock { $0.remove(name) } }
    }

    @discardableResult
    private func attempt(_ body: () throws(DataCacheFault) -> Void) -> Bool {
        do {
            try body()
            return true
        } catch {
            faults.note(error)
            return false
        }
    }

    // MARK: - Sweeping

    var sizeLimit: Int {
        get { limits.withLock { $0.size } }
        set {
            limits.withLock { $0.size = newValue }
            guard configuration.isSweepEnabled else { return }
            // Unstructured because a property setter cannot wait. The task takes only as long as it takes to delete
            // files, and is never cancelled.
            Task { try? await writer.run { self.trim() } }
        }
    }

    /// Scans the folder and trims the cache.
    ///
    /// - Parameter isAsked: whether a caller requested it, so that the cache is trimmed even if `isSweepEnabled` is
    ///   false.
    func sweep(isAsked: Bool) async {
        // `run` throws only if the task was cancelled before the work began.
        try? await writer.run {
            self.limits.withLock { $0.written = 0 }
            for folder in UInt8.min ... .max {
                _ = self.scan(folder)
                // Write between folders, so that callers waiting for room in the staging area do not wait for the scan
                // of a large folder.
                self.queue.writeAll(self.perform)
            }
            self.limits.withLock { $0.isLoaded = true }
            if isAsked || self.configuration.isSweepEnabled { self.trim() }
        }
    }

    /// Totals of all known files, after the folder has been scanned once.
    func totals() async -> (count: Int, size: Int, allocated: Int) {
        if !limits.withLock({ $0.isLoaded }) { await sweep(isAsked: false) }
        return index.withLock { ($0.count, $0.size, $0.allocated) }
    }

    private func scan(_ folder: UInt8) -> [DataCacheFileName: DataCacheFolder.Info] {
        do {
            let found = try self.folder.scan(folder, date: time.date())
            index.withLock { $0.scanned(folder, found) }
            return found
        } catch {
            faults.note(error)
            return [:]
        }
    }

    /// Deletes the least recently used files if the cache is larger than its limit.
    private func trim() {
        let limits = limits.withLock { $0 }
        guard limits.isLoaded, allocated > limits.size else { return }
        let goal = Int(Double(limits.size) * min(1, max(0, configuration.trimRatio)))
        var spared: [(name: DataCacheFileName, used: Int64)] = []
        for (name, used) in index.withLock({ $0.byLastUse() }) where allocated > goal {
            // Another process that shares the folder has used the file since.
            if let info = folder.info(name), info.used > used {
                spared.append((name, info.used))
            } else {
                remove(name)
            }
        }
        for (name, _) in spared.sorted(by: { $0.used < $1.used }) where allocated > goal { remove(name) }
    }

    private var allocated: Int { index.withLock { $0.allocated } }
}
