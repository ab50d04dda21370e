public import Foundation
public import Logging

/// A cache on the disk: one file per key, at most `sizeLimit` bytes, with the least recently used entries deleted
/// first.
///
/// A stored entry can be read at once and is written in the background. Files are named by the SHA-256 of their key,
/// lie in 256 folders and carry a checksum: a file is either intact or a miss, even after `kill -9` or a power cut,
/// which may lose the latest entries (`flush()` waits until they are written). Several objects, also of several
/// processes, may share a folder. They see each other's files, and during a replacement a reader gets the old or the
/// new entry.
///
/// A `DataCache` never fails: an unreadable entry is a miss, and an entry that cannot be written is dropped.
/// `errorCounts` and the log report such errors.
public final class DataCache: DataCaching {
    /// The folder of the cache.
    public let path: URL
    private let core: DataCacheCore
    private let sweeper: Task<Void, Never>

    /// Creates a cache in the user's cache directory (`$XDG_CACHE_HOME`, else `~/.cache`).
    ///
    /// - Parameter name: name of its folder, e.g. `org.example.thumbnails`.
    /// - Throws: `.forbidden` if the name is no file name, `.outputFailed` if the folder cannot be created or written.
    public convenience init(
        name: String,
        configuration: Configuration = Configuration(),
        clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "megaton.data-cache")
    ) throws(ImageError) {
        guard !name.isEmpty, name != ".", name != "..", !name.utf8.contains(where: { $0 == 0 || $0 == 0x2f }) else {
            throw ImageError(
                .forbidden,
                "\"\(name)\" cannot be the name of a disk cache, because it is not a file name."
            )
        }
        guard let caches = FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask).first else {
            throw ImageError(.outputFailed, "This system has no directory for caches; give the disk cache a path.")
        }
        let path = caches.appending(path: name, directoryHint: .isDirectory)
        try self.init(path: path, configuration: configuration, clock: clock, logger: logger)
    }

    /// Creates a cache in a folder, which is created if missing.
    ///
    /// - Parameters:
    ///   - path: a folder for this cache only, which owns all its contents.
    ///   - clock: measures intervals.
    /// - Throws: `.invalidURL` if the path is no file URL, `.outputFailed` if the folder cannot be created or written.
    public convenience init(
        path: URL,
        configuration: Configuration = Configuration(),
        clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "megaton.data-cache")
    ) throws(ImageError) {
        guard path.isFileURL else {
            throw ImageError(.invalidURL, "\(path) is not a file URL; give the disk cache a folder.")
        }
        let folder = DataCacheFolder(path: path.standardizedFileURL.path(percentEncoded: false).withoutTrailingSlashes)
        try self.init(folder, configuration: configuration, time: TimeSource(clock), logger: logger)
    }

    /// - Parameters:
    ///   - folder: includes the function that writes, which tests of full disks replace.
    ///   - time: its dates are written to the files.
    init(
        _ folder: DataCacheFolder,
        configuration: Configuration,
        time: TimeSource,
        logger: Logger
    ) throws(ImageError) {
        do throws(DataCacheFault) {
            try folder.make()
            guard access(folder.path, R_OK | W_OK | X_OK) == 0 else { throw DataCacheFault("access", folder.path) }
        } catch {
            throw ImageError(
                .outputFailed,
                "The folder \(folder.path) cannot be used for a disk cache: \(error.reason). "
                    + "It must be a directory that this user can write to."
            )
        }
        path = URL(fileURLWithPath: folder.path, isDirectory: true)
        let core = DataCacheCore(folder, configuration, DataCacheFaults(logger: logger, time: time), time)
        self.core = core
        let interval = configuration.sweepInterval
        // Unstructured because it lasts as long as the cache; `deinit` cancels it.
        sweeper = Task {
            // At once, even if the cache is gone by now.
            await core.sweep(isAsked: false)
            await every(interval, startsAtOnce: false, clock: time.clock) { await core.sweep(isAsked: false) }
        }
    }

    deinit { sweeper.cancel() }

    // MARK: - DataCaching

    /// Always `disk`.
    public var layerName: String { "disk" }

    public func cachedData(for key: String) async -> Data? { await core.data([Self.name(key)])[0] }

    /// Reads all keys in one job of one reading thread.
    public func cachedData(for keys: [String]) async -> [Data?] { await core.data(keys.map(Self.name)) }

    public func containsData(for key: String) async -> Bool {
        guard let name = Self.name(key) else { return false }
        return await core.contains(name)
    }

    /// Returns when readers see the data; it reaches the disk a little later, see `flush()`.
    ///
    /// Waits while more than `stagingLimit` bytes are waiting to be written. After `stagingWait`, or if the task is
    /// cancelled, the entry is dropped, and an older one stays. An empty key stores nothing, and data larger than
    /// `sizeLimit` is not stored; it only removes the old entry.
    public func storeData(_ data: Data, for key: String) async {
        guard let name = Self.name(key) else { return }
        guard data.count <= core.sizeLimit else { return core.stageRemoval(for: name) }
        await core.stage(data, for: name)
    }

    /// Returns when readers of this object no longer see the entry, at once. Its file is deleted in the background. If
    /// the disk hangs and very many removals wait for it, all entries are removed in their place.
    public func removeData(for key: String) async {
        guard let name = Self.name(key) else { return }
        core.stageRemoval(for: name)
    }

    /// Returns when readers of this object no longer see any earlier entry. The files, also those of other processes,
    /// are deleted in the background.
    public func removeAll() async { core.stageRemoveAll() }

    // MARK: - The disk

    /// Maximum size on the disk in bytes. A lower value is enforced soon after it is set.
    public var sizeLimit: Int {
        get { core.sizeLimit }
        set { core.sizeLimit = newValue }
    }

    /// Returns when all changes requested so far, writes and removals, have been carried out. They may still be lost in
    /// a power cut.
    public func flush() async { await core.flush() }

    /// Returns when all changes requested so far for a key have been carried out.
    public func flush(for key: String) async {
        if let name = Self.name(key) { await core.flush(name) }
    }

    /// Scans the folder, and trims the cache if it is larger than `sizeLimit`. This also happens at intervals.
    public func sweep() async { await core.sweep(isAsked: true) }

    /// The file of a key's entry, even if it does not exist; nil for the empty key. A header precedes the data.
    public func url(for key: String) -> URL? {
        Self.name(key).map { URL(fileURLWithPath: core.folder.path(of: $0), isDirectory: false) }
    }

    /// Number of entries on the disk.
    public var totalCount: Int { get async { await core.totals().count } }
    /// Total size of all files in bytes.
    public var totalSize: Int { get async { await core.totals().size } }
    /// Total size that the files occupy on the disk, in bytes.
    public var totalAllocatedSize: Int { get async { await core.totals().allocated } }

    /// Number of failures by operation and reason, e.g. `write: No space left on device`.
    public var errorCounts: [String: Int] { core.faults.counts }

    private static func name(_ key: String) -> DataCacheFileName? { key.isEmpty ? nil : DataCacheFileName(key) }
}

extension DataCache: WaitingDataCaching {
    package func storeDataAtOnce(_ data: Data, for key: String) async {
        guard let name = Self.name(key) else { return }
        guard data.count <= core.sizeLimit else { return core.stageRemoval(for: name) }
        core.stageAtOnce(data, for: name)
    }
}

extension String {
    fileprivate var withoutTrailingSlashes: String {
        var path = self[...]
        while path.count > 1, path.hasSuffix("/") { path.removeLast() }
        return String(path)
    }
}

extension DataCache {
    /// Limits of a disk cache.
    public struct Configuration: Sendable {
        /// Maximum size on the disk in bytes, as allocated. Above it the least recently used entries are deleted.
        /// Defaults to 150 MiB, as in Nuke.
        public var sizeLimit = 150 * 1024 * 1024
        /// The fraction of `sizeLimit` that remains after a trim.
        public var trimRatio = 0.7
        /// The interval between scans of the folder, which find files of other processes and trim the cache.
        public var sweepInterval: Duration = .seconds(30 * 60)
        /// Whether this object trims the cache by itself. If several objects share a folder and only one should delete
        /// files, set it to false in all the others.
        public var isSweepEnabled = true
        /// Maximum size in bytes of entries that wait to be written; above it `storeData` waits.
        public var stagingLimit = 32 * 1024 * 1024
        /// How long `storeData` waits before it drops the entry. A hanging disk must not delay callers that already
        /// have their data.
        public var stagingWait: Duration = .seconds(10)
        /// Number of reading threads, and so of files read concurrently.
        public var readConcurrency = 4

        /// Creates the default configuration.
        public init() {}
    }
}
