import Foundation

/// Remaining names of one directory, sorted so that each run has the same order.
///
/// Names are bytes, as they are for the kernel, so that a name that is not UTF-8 is reported and not lost.
struct DirectoryListing {
    /// Type of a directory entry.
    enum EntryType {
        case file, directory, linkedDirectory
        /// A link whose target is not there, perhaps as a disk is missing.
        case danglingLink
    }

    let path: String
    /// Path components of the directory within the tree of the input.
    let components: [String]
    var names: ArraySlice<[UInt8]>

    /// - Throws: `CLIError` if the directory cannot be read.
    init(_ path: String, components: [String]) throws {
        self.path = path
        self.components = components
        guard let directory = opendir(path) else { throw Self.failure(path) }
        defer { closedir(directory) }
        var names: [[UInt8]] = []
        while true {
            errno = 0
            guard let entry = readdir(directory) else {
                // The end of the directory, unless `errno` is set.
                if errno != 0 { throw Self.failure(path) }
                break
            }
            names.append(withUnsafeBytes(of: &entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) })
        }
        self.names = names.sorted { $0.lexicographicallyPrecedes($1) }[...]
    }

    private static func failure(_ path: String) -> CLIError {
        CLIError.usage("the directory \(path) cannot be read: \(String(cString: strerror(errno))).")
    }

    /// The type of an entry. A pipe or a socket counts as a file: a worker reports its fault, so that the ledger has a
    /// line for it.
    func entryType(of name: [UInt8]) -> EntryType {
        let file = (Array(path.utf8) + [UInt8(ascii: "/")] + name + [0]).map(CChar.init(bitPattern:))
        var info = stat()
        guard lstat(file, &info) == 0 else { return .file }
        switch info.st_mode & S_IFMT {
        case S_IFDIR: return .directory
        case S_IFLNK:
            guard stat(file, &info) == 0 else { return .danglingLink }
            return info.st_mode & S_IFMT == S_IFDIR ? .linkedDirectory : .file
        default: return .file
        }
    }
}
