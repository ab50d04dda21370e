import Foundation

/// The inputs that the user named, and the files beneath them that are left out.
struct InputSelection: Sendable {
    /// Files, directories, URLs, lists, and `-` for standard input.
    var arguments: [String] = []
    /// Files of jobs, and `-` for standard input.
    var jobLists: [String] = []
    /// A ledger whose failed jobs are inputs too.
    var ledger: String?
    /// The output directory, absolute: images that were made before are no inputs.
    var output: String?
    /// File extensions that are taken from directories.
    var endings = InputReader.usualEndings
    var exclusions = Exclusions([])

    /// The inputs that can be read a second time, to know all of them before the first job runs.
    var repeatable: InputSelection {
        var copy = self
        copy.arguments = arguments.filter(Self.isRepeatable)
        copy.jobLists = jobLists.filter(Self.isRepeatable)
        return copy
    }

    /// Whether all inputs can be read a second time.
    var isRepeatable: Bool { (arguments + jobLists).allSatisfy(Self.isRepeatable) }

    private static func isRepeatable(_ argument: String) -> Bool {
        guard argument != "-" else { return false }
        var info = stat()
        guard stat(FileNames.localPath(argument), &info) == 0 else { return true }
        return [S_IFREG, S_IFDIR].contains(info.st_mode & S_IFMT)
    }

    /// Paths of what is read as a list: none of these files may be replaced by an output.
    var lists: [String] {
        (arguments.map(FileNames.localPath).filter { InputReader.kind(of: $0) != nil } + jobLists).filter { $0 != "-" }
            + (ledger.map { [$0] } ?? [])
    }
}

/// Patterns of `--exclude`.
struct Exclusions: Sendable {
    private let patterns: [String]
    /// The current directory, with a slash at its end.
    private let here: String

    /// - Parameters:
    ///   - patterns: as in a shell. One without a slash is for the last component of a path, one with a slash for the
    ///     whole of it.
    ///   - here: the directory that people see their paths from.
    init(_ patterns: [String], here: String = FileManager.default.currentDirectoryPath) {
        self.here = here.hasSuffix("/") ? here : here + "/"
        self.patterns = patterns.map { pattern in
            let start = pattern.hasPrefix("./") ? pattern.dropFirst(2) : pattern[...]
            return String(start.count > 1 && start.hasSuffix("/") ? start.dropLast() : start)
        }
    }

    /// - Parameter paths: spellings of one path: beneath the directory that was named, absolute, as a list has it. An
    ///   absolute one counts as seen from the current directory, too.
    func contain(_ paths: String...) -> Bool {
        if patterns.isEmpty { return false }
        let all = paths + paths.filter { $0.hasPrefix(here) }.map { String($0.dropFirst(here.count)) }
        return patterns.contains { pattern in
            all.contains { path in
                if pattern.utf8.contains(UInt8(ascii: "/")) { return fnmatch(pattern, path, 0) == 0 }
                let whole = path.split(separator: "/").last.map(String.init) ?? path
                return fnmatch(pattern, whole, 0) == 0 || fnmatch(pattern, String(whole.prefix { $0 != "?" }), 0) == 0
            }
        }
    }
}
