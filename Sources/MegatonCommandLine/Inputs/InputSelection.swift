import Foundation
package import MegatonCluster
import MegatonCore

/// The inputs that the user named, and the patterns of files to leave out.
package struct InputSelection: Sendable {
    /// Files, directories, URLs, lists, and `-` for standard input.
    package var arguments: [String]
    /// Files of jobs, and `-` for standard input.
    package var jobLists: [String]
    /// A ledger whose failed jobs are inputs too.
    package var ledger: String?
    /// The output directory, absolute: images from an earlier run are not inputs.
    package var output: String?
    /// Destination of the outputs if they are objects, which are not inputs either.
    package var objects: OutputBucket?
    /// File extensions that are selected in directories.
    package var fileExtensions: Set<String>
    package var exclusions: Exclusions
    /// Format of standard input and of files whose names do not show that they are images; nil if the names decide,
    /// also those of sitemaps by URL.
    package var format: ListFormat?
    /// Whether a zero byte, not a line end, ends each line of standard input and of `.txt` lists.
    package var isNullSeparated = false
    /// Fields without which a row of a list has no name for its outputs.
    package var requiredFields = RequiredFields()
    /// Columns of CSV and TSV lists.
    package var table = TableOptions()

    package init(
        arguments: [String] = [],
        jobLists: [String] = [],
        ledger: String? = nil,
        output: String? = nil,
        fileExtensions: Set<String> = InputReader.defaultFileExtensions,
        exclusions: Exclusions = Exclusions([])
    ) {
        self.arguments = arguments
        self.jobLists = jobLists
        self.ledger = ledger
        self.output = output
        self.fileExtensions = fileExtensions
        self.exclusions = exclusions
    }

    /// The inputs that can be read twice, so that all are known before the first job runs.
    package var repeatable: InputSelection {
        var copy = self
        // Only files matter there, and buckets and sitemaps name none.
        copy.arguments = arguments.filter { Self.isRepeatable($0) && !isRemote($0) }
        copy.jobLists = jobLists.filter(Self.isRepeatable)
        return copy
    }

    /// Whether all inputs can be read twice.
    package var isRepeatable: Bool { (arguments + jobLists).allSatisfy(Self.isRepeatable) }

    private static func isRepeatable(_ argument: String) -> Bool {
        guard argument != "-" else { return false }
        var info = stat()
        guard stat(FileNames.localPath(argument), &info) == 0 else { return true }
        return [S_IFREG, S_IFDIR].contains(info.st_mode & S_IFMT)
    }

    /// Paths of the lists: no output may replace one of these files.
    package var lists: [String] {
        (arguments.map(FileNames.localPath).filter { listFormat(of: $0) != nil } + jobLists).filter { $0 != "-" }
            + (ledger.map { [$0] } ?? [])
    }

    /// Whether an argument is read over the network before its images are known.
    package func isRemote(_ argument: String) -> Bool {
        if PrefixReader.isPrefix(argument) || isSitemapURL(argument) { return true }
        // A sitemap on this machine may be an index of others.
        let path = FileNames.localPath(argument)
        return !InputReader.isURL(path) && listFormat(of: path) == .sitemap
    }

    /// Whether a URL is that of a sitemap, and not of an image: by its name, unless the options name a format.
    func isSitemapURL(_ argument: String) -> Bool {
        guard SitemapReader.isRemote(argument), let url = URL(string: argument) else { return false }
        switch format {
        case .sitemap?: return !fileExtensions.contains(url.pathExtension.lowercased())
        case nil: return Sitemap.isUsualName(of: url)
        default: return false
        }
    }

    /// Format of a list, by its name and the options; nil for a file that is not a list.
    ///
    /// - Parameter path: `-` is standard input.
    package func listFormat(of path: String) -> ListFormat? {
        let fileExtension = (path as NSString).pathExtension.lowercased()
        if path != "-" && fileExtensions.contains(fileExtension) { return nil }
        let isCompressed = fileExtension == "gz" && path.lowercased().hasSuffix(".xml.gz")
        let found = format ?? ListFormat(word: path == "-" ? "txt" : isCompressed ? "xml" : fileExtension)
        return found == .sources && isNullSeparated ? .names : found
    }
}

/// Patterns of `--exclude`.
package struct Exclusions: Sendable {
    private let patterns: [String]
    /// The current directory, with a trailing slash.
    private let here: String

    /// Creates exclusions.
    ///
    /// - Parameters:
    ///   - patterns: shell patterns. One without a slash matches the last component of a path, one with a slash all of
    ///     it.
    ///   - here: the directory to which users' paths are relative.
    package init(_ patterns: [String], here: String = FileManager.default.currentDirectoryPath) {
        self.here = here.hasSuffix("/") ? here : here + "/"
        self.patterns = patterns.map { pattern in
            let start = pattern.hasPrefix("./") ? pattern.dropFirst(2) : pattern[...]
            return String(start.count > 1 && start.hasSuffix("/") ? start.dropLast() : start)
        }
    }

    /// Whether a pattern has a bracket without an end, which `fnmatch` treats as the character itself.
    package static func hasOpenBracket(_ pattern: String) -> Bool {
        var rest = pattern[...]
        while let character = rest.popFirst() {
            if character == "\\" { rest = rest.dropFirst() }
            if character != "[" { continue }
            if rest.first == "!" || rest.first == "^" { rest = rest.dropFirst() }
            // The first one of a set is a character of it.
            guard let end = rest.dropFirst().firstIndex(of: "]") else { return true }
            rest = rest[rest.index(after: end)...]
        }
        return false
    }

    /// Whether a pattern matches one of the paths.
    ///
    /// - Parameter paths: spellings of one path: relative to the named directory, absolute, as in a list. An absolute
    ///   one is also matched relative to the current directory.
    package func contain(_ paths: String...) -> Bool {
        if patterns.isEmpty { return false }
        let all = paths + paths.filter { $0.hasPrefix(here) }.map { String($0.dropFirst(here.count)) }
        return patterns.contains { pattern in
            all.contains { path in
                if pattern.utf8.contains(UInt8(ascii: "/")) { return fnmatch(pattern, path, 0) == 0 }
                let whole = path.pathComponents().last.map(String.init) ?? path
                return fnmatch(pattern, whole, 0) == 0 || fnmatch(pattern, String(whole.prefix { $0 != "?" }), 0) == 0
            }
        }
    }
}

/// Fields without which a job has no name for its outputs, by the template of `--name`.
package struct RequiredFields: Sendable, Equatable {
    /// Names of labels.
    package var labels: [String]
    /// Whether a job needs an id of its own.
    package var id: Bool

    package init(labels: [String] = [], id: Bool = false) {
        self.labels = labels
        self.id = id
    }
}
