internal import Foundation
import Synchronization

/// What a `DataCache` is made of. It outlives its owner until what has been staged is on the disk.
///
/// One thread changes files, several read them. Reads never ask the index: what another process has put into the folder is
/// there too.
final class DataCacheCore: Sendable {
    let folder: DataCacheFolder
    let faults: DataCacheFaults
    private let configuration: DataCache.Configuration
    private let time: TimeSource
    private let queue: DataCacheQueue
    private let index = Mutex(DataCacheIndex())
    private let limits: Mutex<(size: Int, isLoaded: Bool)>
    private let readers: ThreadPool
    private let writer = ThreadPool(name: "cache-write", count: 1)

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
        limits = Mutex((configuration.sizeLimit, false))
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
            case .remove: break
            case nil: onDisk.append((place, name))
            }
        }
        if onDisk.isEmpty { return found }
        let files = onDisk
        // It throws only where the task is cancelled: a miss.
        let readings = (try? await readers.run { files.map { self.read($0.name) } }) ?? []
        for (file, reading) in zip(files, readings) {
            switch reading {
            case .found(let data, _): found[file.place] = data
            case .damaged(let info): await drop(file.name, info)
            case .missing: break
            }
        }
        return found
    }

    func contains(_ name: DataCacheFileName) async -> Bool {
        switch queue.change(for: name) {
        case .store: return true
        case .remove: return false
        // It throws only where the task is cancelled: a miss.
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
            // A file that is deleted at this moment is noted in vain: the next sweep sees that.
            let note = index.withLock { $0.read(name, info, date: date) }
            if let note { attempt { () throws(DataCacheFault) in try folder.touch(name, used: note) } }
            return reading
        } catch {
            faults.note(error)
            return .missing
        }
    }

    /// Deletes a damaged file, unless another one has come into its place. By the thread that puts files there.
    private func drop(_ name: DataCacheFileName, _ info: DataCacheFolder.Info) async {
        faults.note(DataCacheFault("read", folder.path(of: name), reason: "the file is damaged and is deleted"))
        // Where the task is cancelled the next reader deletes it.
        try? await writer.run {
            self.attempt { () throws(DataCacheFault) in try self.folder.remove(name, inode: info.inode) }
            if !self.folder.contains(name) { self.index.withLock { $0.remove(name) } }
        }
    }

    // MARK: - Changing

    func stage(_ change: DataCacheStaging.Change, for name: DataCacheFileName) async {
        switch await queue.stage(change, for: name) {
        case .staged(let isFirst): if isFirst { startWriting() }
        case .dropped:
            faults.note(
                DataCacheFault("stage", folder.path(of: name), reason: "the disk is too slow; the change is dropped")
            )
        }
    }

    func stageRemoveAll() {
        if queue.stageRemoveAll() { startWriting() }
    }

    func flush(_ name: DataCacheFileName? = nil) async { await queue.flush(name) }

    private func startWriting() {
        // Unstructured, as whoever stores does not wait for the disk: one at a time, and it ends with what is staged.
        // Nobody cancels it, and the writer is stopped only when nobody holds `self`.
        Task { try? await writer.run { self.queue.writeAll(self.perform) } }
    }

    private func perform(_ work: DataCacheStaging.Work) {
        switch work {
        case .change(let name, .store(let data)): write(data, name)
        case .change(let name, .remove): remove(name)
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
            if configuration.isSweepEnabled { trim() }
        } catch {
            faults.note(error)
            // The older entry must not come to light again.
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
            // Unstructured, as a property cannot wait: as short as the deletion of files is.
            // Nobody cancels it.
            Task { try? await writer.run { self.trim() } }
        }
    }

    /// Looks the folder through, and makes room.
    ///
    /// - Parameter isAsked: whether somebody wants room to be made now.
    func sweep(isAsked: Bool) async {
        // It throws only where the task is cancelled before it began.
        try? await writer.run {
            for folder in UInt8.min ... .max {
                _ = self.scan(folder)
                // Whoever waits for room in the staging area does not wait for a large folder to be read.
                self.queue.writeAll(self.perform)
            }
            self.limits.withLock { $0.isLoaded = true }
            if isAsked || self.configuration.isSweepEnabled { self.trim() }
        }
    }

    /// The files as far as they are known, once the folder has been looked through.
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

    /// Deletes what was not used for longest, where there is too much.
    private func trim() {
        let limits = limits.withLock { $0 }
        guard limits.isLoaded, allocated > limits.size else { return }
        let goal = Int(Double(limits.size) * min(1, max(0, configuration.trimRatio)))
        var spared: [(name: DataCacheFileName, used: Int64)] = []
        for (name, used) in index.withLock({ $0.byLastUse() }) where allocated > goal {
            // Somebody else who shares the folder has used it.
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
