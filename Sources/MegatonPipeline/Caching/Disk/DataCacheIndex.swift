/// What a disk cache knows of its files: sizes, and when each was last used. About 100 bytes of memory a file.
///
/// It decides what goes when room is needed, never what is there: other processes may share the folder.
struct DataCacheIndex: Sendable {
    private struct Entry {
        var size: Int
        var allocated: Int
        /// Nanoseconds since 1970, made distinct.
        var used: Int64
        /// What of that the file itself says.
        var touched: Int64
    }

    /// By folder, as they are scanned.
    private var folders: [[DataCacheFileName: Entry]] = Array(repeating: [:], count: 256)
    private var lastUse: Int64 = 0
    private(set) var count = 0
    private(set) var size = 0
    private(set) var allocated = 0

    /// How old what a file says about its last use may become.
    static let touchInterval: Int64 = 60 * 1_000_000_000

    /// A time for a use that is happening: never that of another one, and never earlier, so that a date that is set back
    /// does not turn the order round.
    mutating func stamp(_ date: Int64) -> Int64 {
        lastUse = max(date, lastUse + 1)
        return lastUse
    }

    mutating func wrote(_ name: DataCacheFileName, _ info: DataCacheFolder.Info, used: Int64) {
        set(name, Entry(size: info.size, allocated: info.allocated, used: used, touched: used))
    }

    /// - Returns: what is to be noted at the file, if its note has become old.
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

    /// Takes over what has been found in one of the folders.
    mutating func scanned(_ folder: UInt8, _ found: [DataCacheFileName: DataCacheFolder.Info]) {
        for name in folders[Int(folder)].keys where found[name] == nil { set(name, nil) }
        for (name, info) in found {
            let used = max(info.used, self[name]?.used ?? info.used)
            lastUse = max(lastUse, used)
            set(name, Entry(size: info.size, allocated: info.allocated, used: used, touched: info.used))
        }
    }

    /// All files, the one that was not used for longest first.
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
