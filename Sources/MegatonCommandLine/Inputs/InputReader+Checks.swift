import Foundation

// Checks before a run, and their messages.
extension InputReader {
    /// Checks that all local inputs exist before any work begins.
    ///
    /// - Throws: `CLIError` for the first one that is missing.
    package static func check(_ arguments: [String]) throws {
        for argument in arguments where argument != "-" {
            let path = FileNames.localPath(argument)
            if !isURL(path) && !FileManager.default.fileExists(atPath: path) {
                throw missing(argument)
            }
        }
    }

    /// Checks that the files of an option exist.
    ///
    /// - Throws: `CLIError` for the first one that is missing.
    package static func check(_ paths: [String], of option: String) throws {
        for path in paths where path != "-" && !FileManager.default.fileExists(atPath: FileNames.localPath(path)) {
            throw missing(path, "\(option) \(path): no such file.")
        }
    }

    static func missing(_ argument: String) -> CLIError {
        missing(
            argument,
            "\(argument): no such file or directory. An input is an image, a directory, a URL, a .txt, .csv, .tsv or "
                + ".jsonl list, a sitemap, or - for standard input.\(schemeAdvice(argument))"
        )
    }

    private static func missing(_ argument: String, _ message: String) -> CLIError {
        var info = stat()
        // A directory above it may be closed to this user.
        if stat(FileNames.localPath(argument), &info) != 0, errno != ENOENT, errno != ENOTDIR {
            return CLIError.usage("\(argument) cannot be read: \(String(cString: strerror(errno))).")
        }
        return CLIError.usage(message)
    }
}
