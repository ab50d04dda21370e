import Foundation

/// What is left to be read of one directory, sorted: the same run meets the same order.
///
/// Names are bytes here, as they are for the kernel: one that is no UTF-8 is told of and not lost.
struct DirectoryListing {
    /// What a name stands for.
    enum Kind {
        case file, directory, linkedDirectory
    }

    let path: String
    /// Of the directory within the tree that was asked for.
    let components: [String]
    var names: ArraySlice<[UInt8]>

    /// - Throws: `Failure` where it cannot be read.
    init(_ path: String, components: [String]) throws {
        self.path = path
        self.components = components
        guard let directory = opendir(path) else { throw Self.failure(path) }
        defer { closedir(directory) }
        var names: [[UInt8]] = []
        while true {
            errno = 0
            guard let entry = readdir(directory) else {
                // The end, unless it says otherwise.
                if errno != 0 { throw Self.failure(path) }
                break
            }
            names.append(withUnsafeBytes(of: &entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) })
        }
        self.names = names.sorted { $0.lexicographicallyPrecedes($1) }[...]
    }

    private static func failure(_ path: String) -> Failure {
        Failure.usage("the directory \(path) cannot be read: \(String(cString: strerror(errno))).")
    }

    /// A link that leads nowhere, or what is no file at all (a pipe, a socket), counts as a file: a worker says what is wrong
    /// with it, and the ledger has its line.
    func kind(_ name: [UInt8]) -> Kind {
        let place = (Array(path.utf8) + [UInt8(ascii: "/")] + name + [0]).map(CChar.init(bitPattern:))
        var info = stat()
        guard lstat(place, &info) == 0 else { return .file }
        switch info.st_mode & S_IFMT {
        case S_IFDIR: return .directory
        case S_IFLNK: return stat(place, &info) == 0 && info.st_mode & S_IFMT == S_IFDIR ? .linkedDirectory : .file
        default: return .file
        }
    }
}
