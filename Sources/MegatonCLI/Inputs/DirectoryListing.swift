import Foundation

/// What is left to be read of one directory, sorted: the same run meets the same order.
struct DirectoryListing {
    /// What a name stands for.
    enum Kind {
        case file, directory, other
    }

    let path: String
    /// Of the directory within the tree that was asked for.
    let components: [String]
    var names: ArraySlice<String>

    /// - Throws: `Failure` where it cannot be read.
    init(_ path: String, components: [String]) throws {
        self.path = path
        self.components = components
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: path).sorted()[...]
        } catch {
            throw Failure.usage("the directory \(path) cannot be read: \(error.localizedDescription)")
        }
    }

    /// A link to a file counts as a file, any other link as something else.
    static func kind(_ path: String) throws -> Kind {
        var info = stat()
        guard lstat(path, &info) == 0 else { return .other }
        switch info.st_mode & S_IFMT {
        case S_IFREG: return .file
        case S_IFDIR: return .directory
        case S_IFLNK: return stat(path, &info) == 0 && info.st_mode & S_IFMT == S_IFREG ? .file : .other
        default: return .other
        }
    }
}
