/// The files of a disk cache as far as they are known: sizes, and when each was last used. About 100 bytes of memory
/// per file.
///
/// The index decides which files to delete first, never which exist: other processes may share the folder.
struct DataCacheIndex: Sendable {
    private struct Entry {
        var size: Int
        var allocated: Int
        /// Time of the last use in nanoseconds since 1970, distinct for every use.
        var used: Int64
        /// The part of `used` that is recorded at the file.
        var touched: Int64
    }

    /// By folder, because folders are scanned one by one.
    private var folders: [[DataCacheFileName: Entry]] = Array(repeating: [:], count: 256)
    private var lastUse: Int64 = 0
    private(set) var count = 0
    private(set) var size = 0
    private(set) var allocated = 0

    /// Maximum age of the last use that is recorded at a file, in nanoseconds; an older record is updated on the next
    /// read.
    static let touchInterval: Int64 = 60 * 1_000_000_000

    /// The time of a use that is happening now. It is always later than that of any earlier use, so that setting back
    /// the clock does not change the order.
    mutating func stamp(_ date: Int64) -> Int64 {
        lastUse = max(date, lastUse + 1)
        return lastUse
    }

    mutating func wrote(_ name: DataCacheFileName, _ info: DataCacheFolder.Info, used: Int64) {
        set(name, Entry(size: info.size, allocated: info.allocated, used: used, touched: used))
    }

    /// - Returns: the time to record at the file if the recorded one is too old, else nil.
    mutating func read(_ name: DataCacheFileName, _ info: DataCacheFolder.Info, date: Int64) -> Int64? {
        let used = stamp(date)
        var touched = max(info.used, self[name]?.touched ?? info.used)
        let isOld = used - touched >= Self.touchInterval
        if isOld { touched = used }
        set(name, Entry(size: info.size, allocated: info.allocated, used: used, touched: touched))
        return isOld ? used : nil
    }

    mutating func remove(_ name: DataCacheFileName) { set(name, nil) }

    mutating func removeAll() {
        let lastUse = lastUse
        self = DataCacheIndex()
        self.lastUse = lastUse
    }

    /// Applies the result of scanning one folder.
    mutating func scanned(_ folder: UInt8, _ found: [DataCacheFileName: DataCacheFolder.Info]) {
        for name in folders[Int(folder)].keys where found[name] == nil { set(name, nil) }
        for (name, info) in found {
            let used = max(info.used, self[name]?.used ?? info.used)
            lastUse = max(lastUse, used)
            set(name, Entry(size: info.size, allocated: info.allocated, used: used, touched: info.used))
        }
    }

    /// All files, the least recently used first.
    func byLastUse() -> [(name: DataCacheFileName, used: Int64)] {
        folders.flatMap { $0.map { (name: $0.key, used: $0.value.used) } }.sorted { $0.used < $1.used }
    }

    // MARK: -

    private subscript(name: DataCacheFileName) -> Entry? { folders[Int(name.folder)][name] }

    private mutating func set(_ name: DataCacheFileName, _ entry: Entry?) {
        let old: Entry?
        if let entry {
            old = folders[Int(name.folder)].updateValue(entry, forKey: name)
        } else {
            old = folders[Int(name.folder)].removeValue(forKey: name)
        }
        count += (entry == nil ? 0 : 1) - (old == nil ? 0 : 1)
        size += (entry?.size ?? 0) - (old?.size ?? 0)
        allocated += (entry?.allocated ?? 0) - (old?.allocated ?? 0)
    }
}
