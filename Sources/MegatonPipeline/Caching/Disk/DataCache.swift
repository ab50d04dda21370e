public import Foundation
public import Logging

/// A cache on the disk: a file for each key, at most `sizeLimit` bytes, and what was not used for longest goes first.
///
/// What is stored can be read at once, and is written behind that. Files are named by the SHA-256 of their key, in 256
/// folders, and carry a checksum: a file is whole or a miss, also after `kill -9` or a power cut (then without what was
/// stored last; `flush()` waits for it to be written). Several objects, also of several processes, may share a folder: they
/// see each other's files, and an entry that is being replaced is the old or the new one.
///
/// It never fails: what cannot be read is a miss, what cannot be written is dropped; `errorCounts` and the log say so.
public final class DataCache: DataCaching {
    /// The folder.
    public let path: URL
    private let core: DataCacheCore
    private let sweeper: Task<Void, Never>

    /// A cache in the user's directory for caches (`$XDG_CACHE_HOME`, else `~/.cache`).
    ///
    /// - Parameter name: of its folder, `org.example.thumbnails`, say.
    /// - Throws: `.forbidden` where it is no name, `.outputFailed` where the folder cannot be made or written to.
    public convenience init(
        name: String,
        configuration: Configuration = Configuration(),
        clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "megaton.data-cache")
    ) throws(ImagePipeline.Error) {
        guard !name.isEmpty, name != ".", name != "..", !name.utf8.contains(where: { $0 == 0 || $0 == 0x2f }) else {
            throw ImagePipeline.Error(.forbidden, "\"\(name)\" cannot be the name of a disk cache: it is no file name.")
        }
        guard let caches = FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask).first else {
            throw ImagePipeline.Error(.outputFailed, "There is no directory for caches; give the disk cache a path.")
        }
        let path = caches.appending(path: name, directoryHint: .isDirectory)
        try self.init(path: path, configuration: configuration, clock: clock, logger: logger)
    }

    /// A cache in a folder, which is made where it is missing.
    ///
    /// - Parameters:
    ///   - path: a folder of its own: its contents are the cache's.
    ///   - clock: what intervals are measured by.
    /// - Throws: `.invalidURL` where it is no file URL, `.outputFailed` where the folder cannot be made or written to.
    public convenience init(
        path: URL,
        configuration: Configuration = Configuration(),
        clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "megaton.data-cache")
    ) throws(ImagePipeline.Error) {
        guard path.isFileURL else {
            throw ImagePipeline.Error(.invalidURL, "\(path) is no file URL; a disk cache needs a folder.")
        }
        let folder = DataCacheFolder(path: path.standardizedFileURL.path(percentEncoded: false).withoutTrailingSlashes)
        try self.init(folder, configuration: configuration, time: TimeSource(clock), logger: logger)
    }

    /// - Parameters:
    ///   - folder: with the means to write, which may be others for a test of full disks.
    ///   - time: the dates are those of the files.
    init(
        _ folder: DataCacheFolder,
        configuration: Configuration,
        time: TimeSource,
        logger: Logger
    ) throws(ImagePipeline.Error) {
        do throws(DataCacheFault) {
            try folder.make()
            guard access(folder.path, R_OK | W_OK | X_OK) == 0 else { throw DataCacheFault("access", folder.path) }
        } catch {
            throw ImagePipeline.Error(
                .outputFailed,
                "The folder \(folder.path) cannot be used for a disk cache: \(error.reason). "
                    + "It must be a directory that this user can write to."
            )
        }
        path = URL(fileURLWithPath: folder.path, isDirectory: true)
        let core = DataCacheCore(folder, configuration, DataCacheFaults(logger: logger, time: time), time)
        self.core = core
        let interval = configuration.sweepInterval
        // Unstructured, as it lasts as long as the cache: `deinit` cancels it.
        sweeper = Task {
            repeat {
                await core.sweep(isAsked: false)
                // Cancelled: the loop's condition ends it.
                try? await time.sleep(interval)
            } while !Task.isCancelled
        }
    }

    deinit { sweeper.cancel() }

    // MARK: - DataCaching

    /// `disk`.
    public var layerName: String { "disk" }

    public func cachedData(for key: String) async -> Data? { await core.data([Self.name(key)])[0] }

    /// One turn of a reading thread for all of them.
    public func cachedData(for keys: [String]) async -> [Data?] { await core.data(keys.map(Self.name)) }

    public func containsData(for key: String) async -> Bool {
        guard let name = Self.name(key) else { return false }
        return await core.contains(name)
    }

    /// Returns when readers see the data; the disk has it a little later, see `flush()`.
    ///
    /// Waits while more than `stagingLimit` bytes are on their way to the disk, and drops the entry after `stagingWait` or
    /// where the task is cancelled. An empty key is no key; what is larger than `sizeLimit` is not kept.
    public func storeData(_ data: Data, for key: String) async {
        guard let name = Self.name(key) else { return }
        await core.stage(data.count <= core.sizeLimit ? .store(data) : .remove, for: name)
    }

    /// Returns when readers no longer see the entry.
    public func removeData(for key: String) async {
        guard let name = Self.name(key) else { return }
        await core.stage(.remove, for: name)
    }

    /// Returns when readers see nothing of what was there before, in this object; the files are deleted behind that, those
    /// of other processes too.
    public func removeAll() async { core.stageRemoveAll() }

    // MARK: - The disk

    /// Bytes on the disk. Enforced soon after it is lowered.
    public var sizeLimit: Int {
        get { core.sizeLimit }
        set { core.sizeLimit = newValue }
    }

    /// Returns when everything that was asked for until now is done: written and deleted. Not when a power cut could not
    /// undo it.
    public func flush() async { await core.flush() }

    /// Returns when everything that was asked for a key until now is done.
    public func flush(for key: String) async {
        if let name = Self.name(key) { await core.flush(name) }
    }

    /// Looks the folder through, and makes room where there is more than `sizeLimit`. Happens by itself, too.
    public func sweep() async { await core.sweep(isAsked: true) }

    /// Where the entry of a key lies, or would; nil for the empty key. The file has a header before the data.
    public func url(for key: String) -> URL? {
        Self.name(key).map { URL(fileURLWithPath: core.folder.path(of: $0), isDirectory: false) }
    }

    /// Entries on the disk.
    public var totalCount: Int { get async { await core.totals().count } }
    /// Bytes of all files.
    public var totalSize: Int { get async { await core.totals().size } }
    /// Bytes that the files take on the disk.
    public var totalAllocatedSize: Int { get async { await core.totals().allocated } }

    /// How often which operation failed, and why: `write: No space left on device`, say.
    public var errorCounts: [String: Int] { core.faults.counts }

    private static func name(_ key: String) -> DataCacheFileName? { key.isEmpty ? nil : DataCacheFileName(key) }
}

extension String {
    fileprivate var withoutTrailingSlashes: String {
        var path = self[...]
        while path.count > 1, path.hasSuffix("/") { path.removeLast() }
        return String(path)
    }
}
