import Foundation
import MegatonCluster
import MegatonCore
import MegatonPipeline

/// Reads the inputs that the user named as a stream: only the current directory or block is in memory.
///
/// Blocks, and so belongs on a thread of its own; not for two threads at once.
package struct InputReader {
    /// A source that is being read.
    private enum Source {
        case arguments(ArraySlice<String>)
        /// Subdirectories are read before the rest of their parent.
        case directory(DirectoryListing)
        case list(LineReader, ListFormat)
        case table(TableReader)
        case prefix(PrefixReader)
        case sitemap(SitemapReader)
        /// The end of a list of jobs, by its name.
        case end(String)
    }

    private var stack: [Source]
    private let selection: InputSelection
    /// Whether inputs that are left out are reported.
    private let isReporting: Bool
    /// Files of directories that were left out because their extensions are not those of images.
    package private(set) var skipped = SkippedFiles()
    /// Inputs that match a pattern of `--exclude`; a directory counts once.
    package private(set) var excluded = 0
    /// Directories that were left out because they could not be read.
    package private(set) var unreadable = 0
    /// Arguments in which no input was found: an empty directory may be a disk that is missing.
    package private(set) var emptyArguments: [String] = []
    /// Links behind which images may be: to directories, which are not followed, or to something that is missing. At
    /// most `linkLimit` of their paths.
    package private(set) var unfollowedLinks: [String] = []
    /// Number of these links.
    package private(set) var unfollowedCount = 0
    /// Number of links to directories.
    package private(set) var linkCount = 0
    /// The argument that is being read, and the number of inputs found before it.
    private var opened: (argument: String, found: Int)?
    /// Number of inputs that were returned.
    private var returned = 0
    /// Number of inputs found before the list of jobs that is being read.
    private var foundBeforeList = 0
    /// Jobs of the ledger that are not repeated.
    package private(set) var notRetried = RetryLedger.NotRetried()
    /// Last lines of the ledger's jobs; nil until the first one that is not done.
    private var lastFailures: LastFailures?
    /// Reports lines of the ledger that are left out.
    package var invalidLines = InvalidLineReporter()

    /// File extensions that are selected in directories; a file that is named explicitly needs none of them.
    package static let defaultFileExtensions: Set<String> = [
        "jpg", "jpeg", "jpe", "jfif", "png", "gif", "webp", "avif", "heic", "heif",
    ]

    /// Maximum number of paths of links to directories.
    package static let linkLimit = 1000
    /// Maximum size of a sitemap, bytes.
    package static let sitemapLimit = Sitemap.sizeLimit

    /// - Parameter isReporting: whether inputs that are left out are reported on standard error.
    /// - Throws: `CLIError` if a list of jobs or the ledger cannot be read.
    package init(_ selection: InputSelection, isReporting: Bool = true) throws {
        stack = [.arguments(selection.arguments[...])]
        for path in selection.jobLists.reversed() {
            stack += [.end(path), .list(try Self.lines(of: path), .jobs)]
        }
        if let ledger = selection.ledger { stack.append(.list(try Self.lines(of: ledger), .ledger)) }
        self.selection = selection
        self.isReporting = isReporting
    }

    /// Whether everything has been read.
    package var isAtEnd: Bool { stack.isEmpty }

    /// The part of the inputs that must be loaded before ``next(_:)`` returns more; nil if none must.
    package var request: RemoteRequest? {
        switch stack.last {
        case .prefix(let prefix)?: prefix.request
        case .sitemap(let sitemap)?: sitemap.request
        default: nil
        }
    }

    /// Takes the answer to ``request``.
    ///
    /// - Throws: `CLIError` if the input cannot be read.
    package mutating func receive(_ answer: RemoteAnswer) throws {
        switch (stack.popLast(), answer) {
        case (.prefix(var prefix)?, .keys(let page)):
            prefix.receive(page)
            stack.append(.prefix(prefix))
        case (.sitemap(var sitemap)?, .sitemap(let document)):
            try sitemap.receive(document)
            stack.append(.sitemap(sitemap))
        // No answer is given without a request.
        case (let source?, _): stack.append(source)
        case (nil, _): break
        }
    }

    /// Returns the next inputs, at most `limit`; fewer if no more arrive within a moment, or if a part of the inputs
    /// must be loaded first. An empty result is not the end.
    ///
    /// - Throws: `CLIError` if an argument or a list cannot be read.
    package mutating func next(_ limit: Int) throws -> [Input] {
        var inputs: [Input] = []
        defer { returned += inputs.count }
        while inputs.count < limit, let source = stack.popLast() {
            switch source {
            case .arguments(var arguments):
                let found = returned + inputs.count + excluded
                if let opened, opened.found == found { emptyArguments.append(opened.argument) }
                opened = nil
                guard let argument = arguments.popFirst() else { continue }
                opened = (argument, found)
                stack.append(.arguments(arguments))
                try open(argument, &inputs)
            case .end(let list):
                let found = returned + inputs.count + excluded
                if found == foundBeforeList { emptyArguments.append(list) }
                foundBeforeList = found
            case .directory(var listing):
                try take(&listing, &inputs)
            case .list(var reader, let format):
                // Inputs that are available are returned before the call waits for more.
                let result = try reader.next(waiting: inputs.isEmpty ? Self.waitLimit : 0)
                if result == .end { continue }
                stack.append(.list(reader, format))
                if result == .nothingYet { return inputs }
                if let found = try input(result, format, reader) { inputs.append(found) }
            case .table(var table):
                let result = try table.next(waiting: inputs.isEmpty ? Self.waitLimit : 0)
                if case .end = result { continue }
                stack.append(.table(table))
                if case .nothingYet = result { return inputs }
                if let found = try input(result) { inputs.append(found) }
            case .sitemap(var sitemap):
                let result = try sitemap.next(waiting: inputs.isEmpty ? Self.waitLimit : 0)
                if case .end = result { continue }
                stack.append(.sitemap(sitemap))
                if case .nothingYet = result { return inputs }
                if let found = input(result) { inputs.append(found) }
            case .prefix(var prefix):
                if prefix.request != nil {
                    stack.append(source)
                    return inputs
                }
                guard let key = prefix.next() else { continue }
                stack.append(.prefix(prefix))
                if let found = input(key, of: prefix) { inputs.append(found) }
            }
        }
        return inputs
    }

    private mutating func open(_ argument: String, _ inputs: inout [Input]) throws {
        if argument == "-" {
            try openList(argument)
            return
        }
        if PrefixReader.isPrefix(argument) {
            stack.append(.prefix(try PrefixReader(argument)))
            return
        }
        if selection.isSitemapURL(argument) {
            let sitemap = try SitemapReader(url: argument, fileExtensions: selection.fileExtensions)
            stack.append(.sitemap(sitemap))
            return
        }
        let local = FileNames.localPath(argument)
        if Self.isURL(local) {
            if isExcluded(argument) { return }
            inputs.append(Self.url(argument))
            return
        }
        let path = URL(fileURLWithPath: local).standardizedFileURL.path
        var isDirectory: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory) else {
            throw Self.missing(argument)
        }
        if isDirectory.boolValue {
            stack.append(.directory(try DirectoryListing(path, components: [])))
            return
        }
        if selection.listFormat(of: path) != nil {
            try openList(path)
        } else if !isExcluded(path) {
            inputs.append(Self.file(path, components: [(path as NSString).lastPathComponent]))
        }
    }

    private mutating func openList(_ path: String) throws {
        let format = selection.listFormat(of: path) ?? .sources
        if format == .sitemap {
            let descriptor = path == "-" ? STDIN_FILENO : try Self.descriptor(of: path)
            let document = DocumentReader(descriptor, name: path == "-" ? Self.standardInput : path)
            stack.append(.sitemap(SitemapReader(document, fileExtensions: selection.fileExtensions)))
            return
        }
        let lines = try Self.lines(of: path, separator: format == .names ? 0 : UInt8(ascii: "\n"))
        if case .table(let table) = format {
            stack.append(.table(TableReader(lines, table, selection.table, selection.requiredFields)))
        } else {
            stack.append(.list(lines, format))
        }
    }

    private mutating func isExcluded(_ path: String, _ other: String? = nil) -> Bool {
        guard selection.exclusions.contain(path, other ?? path) else { return false }
        excluded += 1
        return true
    }

    /// - Parameter path: `-` is standard input.
    /// - Throws: `CLIError` if the file cannot be opened.
    package static func lines(of path: String, separator: UInt8 = UInt8(ascii: "\n")) throws -> LineReader {
        if path == "-" { return LineReader(STDIN_FILENO, name: standardInput, separator: separator) }
        return LineReader(try descriptor(of: path), name: path, separator: separator)
    }

    private static let standardInput = "standard input"

    static func descriptor(of path: String) throws -> Int32 {
        // Opened without blocking: a pipe without a writer is polled like a slow one, so that a signal is noticed.
        let descriptor = Foundation.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw CLIError.usage("\(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        return descriptor
    }

    private mutating func take(_ listing: inout DirectoryListing, _ inputs: inout [Input]) throws {
        guard let bytes = listing.names.popFirst() else { return }
        guard let name = String(validating: bytes, as: UTF8.self) else {
            stack.append(.directory(listing))
            takeUnreadable(bytes, listing, &inputs)
            return
        }
        let path = "\(listing.path)/\(name)"
        let components = listing.components + [name]
        stack.append(.directory(listing))
        if name.utf8.first == UInt8(ascii: ".") { return }
        if isExcluded(components.joined(separator: "/"), path) { return }
        // Links to directories are not followed: they may lead in a circle.
        let type = listing.entryType(of: bytes)
        switch type {
        case .directory where isOutput(path): break
        case .directory:
            do {
                stack.append(.directory(try DirectoryListing(path, components: components)))
            } catch let failure as CLIError {
                // One unreadable directory, such as lost+found, is no reason to skip the others.
                unreadable += 1
                if isReporting { Terminal.error("megaton: left out: \(failure.message)") }
            }
        case .file, .danglingLink:
            if selection.fileExtensions.contains((name as NSString).pathExtension.lowercased()) {
                // A worker reports the fault of a link that leads nowhere, so that the ledger has a line for it.
                inputs.append(Self.file(path, components: components))
                break
            }
            skipped.add(name)
            // Perhaps a directory on a disk that is missing now: its images are not known to be gone.
            if type == .danglingLink { noteUnfollowed(path) }
        case .linkedDirectory:
            linkCount += 1
            noteUnfollowed(path)
        }
    }

    private mutating func noteUnfollowed(_ link: String) {
        unfollowedCount += 1
        if unfollowedLinks.count < Self.linkLimit { unfollowedLinks.append(link) }
    }

    /// Whether a directory is the output directory, even if a link was used to name that.
    private func isOutput(_ path: String) -> Bool {
        guard let output = selection.output, let left = realpath(path, nil) else { return false }
        defer { free(left) }
        guard let right = realpath(output, nil) else { return false }
        defer { free(right) }
        return strcmp(left, right) == 0
    }

    /// Adds an entry whose name is not UTF-8, with its bytes encoded in the URL: a worker reports its fault, so that
    /// the ledger has a line for it. A directory becomes one such input for all of its content.
    private mutating func takeUnreadable(_ name: [UInt8], _ listing: DirectoryListing, _ inputs: inout [Input]) {
        if name.first == UInt8(ascii: ".") { return }
        let encoded = FileNames.encoded(name)
        let type = listing.entryType(of: name)
        if type == .linkedDirectory { return }
        if type != .directory && !selection.fileExtensions.contains((encoded as NSString).pathExtension.lowercased()) {
            skipped.add(encoded)
            return
        }
        let path = OutputPath.of(listing.components + [encoded])
        inputs.append(.source(url: FileNames.fileURL(listing.path) + "/" + encoded, path: path))
    }

    /// The object of a key, by the rules of files in directories; nil if it is left out.
    private mutating func input(_ key: String, of prefix: PrefixReader) -> Input? {
        let components = prefix.components(of: key)
        // Some programs create empty objects in the place of directories.
        let isHidden = components.contains { $0.hasPrefix(".") && $0 != "." && $0 != ".." }
        guard let name = components.last, !key.hasSuffix("/"), !isHidden else { return nil }
        let path = components.joined(separator: "/")
        if isExcluded(path, "\(prefix.prefix)\(path)") { return nil }
        guard selection.fileExtensions.contains((name as NSString).pathExtension.lowercased()) else {
            skipped.add(name)
            return nil
        }
        do {
            let location = try S3Location(bucket: prefix.prefix.bucket, key: key)
            if let output = selection.objects, output.isWithin(prefix.prefix), output.contains(location) { return nil }
            return .source(url: location.url.absoluteString, path: OutputPath.of(components))
        } catch {
            return .refused(line: key, reason: error.message, location: prefix.location)
        }
    }

    /// Time for which one call waits for a slow list, ms; a stop is noticed only after it.
    private static let waitLimit: Int32 = 100

    // MARK: - Lines

    /// Nil for a blank line, a comment, and a line of a ledger that is not repeated.
    private mutating func input(
        _ result: LineReader.ReadResult,
        _ format: ListFormat,
        _ reader: LineReader
    ) throws -> Input? {
        switch result {
        case .line(let line):
            if format == .names { return name(line, reader.invalidBytes) }
            try Self.checkStart(line, format, reader)
            guard let found = try input(line, format, reader.location) else { return nil }
            // The replaced text would name another file, or none.
            let isReadable = ![.sources, .jobs].contains(format) || reader.isUTF8
            return isReadable ? found : .refused(line: line, reason: Self.noUTF8, location: reader.location)
        case .tooLong(let beginning):
            try Self.checkStart(beginning, format, reader)
            switch format {
            // The beginning is reported as an incomplete line of a ledger.
            case .ledger: return try input(beginning, format, reader.location)
            case .sources where beginning.utf8.first == UInt8(ascii: "#"): return nil
            default: return .refused(line: beginning, reason: Self.tooLong, location: reader.location)
            }
        case .nothingYet, .end: return nil
        }
    }

    /// - Throws: `CLIError` if standard input, which cannot be read before the work begins, is of another kind by its
    ///   first line.
    private static func checkStart(_ line: String, _ format: ListFormat, _ reader: LineReader) throws {
        guard format == .sources, reader.location == LineLocation(list: standardInput, number: 1) else { return }
        var bytes = Array((reader.invalidBytes ?? Array(line.utf8)).prefix(FileKind.examined))
        bytes.append(UInt8(ascii: "\n"))
        bytes.append(contentsOf: reader.available.prefix(FileKind.examined))
        guard let kind = FileKind(bytes), !kind.isReadable(as: format) else { return }
        throw CLIError.usage("\(standardInput) is \(kind.adviceForStandardInput).")
    }

    private mutating func input(_ line: String, _ format: ListFormat, _ location: LineLocation) throws -> Input? {
        let text = Self.trimmed(line)
        if text.isEmpty { return nil }
        switch format {
        case .ledger: return try repeated(text, location)
        case .jobs: return .job(line: Data(text.utf8), location: location)
        // Tables and sitemaps have readers of their own.
        case .sources, .names, .table, .sitemap: return source(text, location)
        }
    }

    /// A row of a table; nil if it is excluded.
    private mutating func input(_ result: TableReader.ReadResult) throws -> Input? {
        switch result {
        case .nothingYet, .end: return nil
        case .refused(let line, let reason, let location):
            return .refused(line: line, reason: reason, location: location)
        case .row(let row):
            if row.source.utf8.first == UInt8(ascii: "{") {
                return .refused(line: row.source, reason: Self.jobInList, location: row.location)
            }
            let found = named(row.source, row.location)
            guard case .source(let url, let path)? = found else { return found }
            if row.id == nil && row.labels == nil { return .source(url: url, path: path) }
            return .row(InputRow(url: url, path: path, id: row.id, labels: row.labels, location: row.location))
        }
    }

    /// An image of a sitemap; nil if it is excluded.
    private mutating func input(_ result: SitemapReader.ReadResult) -> Input? {
        switch result {
        case .image(let url): named(url)
        case .refused(let url, let reason, let location): .refused(line: url, reason: reason, location: location)
        case .nothingYet, .end: nil
        }
    }

    /// A name as the kernel has it: any bytes but zero. Nil if it is excluded.
    ///
    /// - Parameter bytes: the name, if it is not UTF-8: a worker reports its fault, so that the ledger has a line for
    ///   it.
    private mutating func name(_ text: String, _ bytes: [UInt8]?) -> Input? {
        guard let bytes else { return text.isEmpty ? nil : named(text) }
        if isExcluded(text) { return nil }
        let encoded = FileNames.encoded(bytes)
        let start = bytes.first == UInt8(ascii: "/") ? "" : FileManager.default.currentDirectoryPath + "/"
        let components = encoded.pathComponents().filter { $0 != "." && $0 != ".." }.map(String.init)
        return .source(url: FileNames.fileURL(start) + encoded, path: OutputPath.of(components))
    }

    /// Foundation's function copies and converts the whole text, which costs 10 ms for a `data:` URL of 700 KB.
    static func trimmed(_ line: String) -> String {
        let spaces = CharacterSet.whitespacesAndNewlines
        let (first, last) = (line.unicodeScalars.first, line.unicodeScalars.last)
        guard let first, let last, spaces.contains(first) || spaces.contains(last) else { return line }
        return line.trimmingCharacters(in: spaces)
    }

    /// Nil for a line whose job is not repeated.
    private mutating func repeated(_ line: String, _ location: LineLocation) throws -> Input? {
        let outcome = RetryLedger.outcome(line)
        if let outcome, try !isLast(outcome, location) { return nil }
        switch RetryLedger.entry(outcome) {
        case .job(let job): return .job(line: job.json(), location: location)
        case .ended: break
        case .cancelled: notRetried.cancelled += 1
        case .failedDuplicate: notRetried.duplicates += 1
        case .unknown(let error):
            notRetried.failed += 1
            leaveOut(location, "the ledger does not have its job, which failed \(error)")
        case .broken: leaveOut(location, "it is not a complete line of a ledger: \(line.prefix(80))")
        }
        return nil
    }

    /// Whether a line is the last one of a job that is not done; true for other lines.
    private mutating func isLast(_ outcome: JobOutcome, _ location: LineLocation) throws -> Bool {
        guard let ledger = selection.ledger, [.failed, .cancelled].contains(outcome.status) else { return true }
        let lines = try lastFailures ?? LastFailures(of: ledger)
        lastFailures = lines
        return lines.isLast(outcome, at: location.number)
    }

    private mutating func leaveOut(_ location: LineLocation, _ reason: String) {
        if isReporting { invalidLines.add(location, "is left out: \(reason)") }
    }

    /// A line of a list can only name a source: jobs also name their outputs, and a list may come from a stranger.
    private mutating func source(_ text: String, _ location: LineLocation) -> Input? {
        // Compared by bytes: a combining mark after the brace would make it another character.
        switch text.utf8.first {
        case UInt8(ascii: "#"): return nil
        case UInt8(ascii: "{"): return .refused(line: text, reason: Self.jobInList, location: location)
        case _ where text.utf8.contains(0): return .refused(line: text, reason: Self.zeroByte, location: location)
        default: return named(text, location)
        }
    }

    /// A URL or a path; nil if it is excluded.
    ///
    /// - Parameter location: that of a line which is refused if it is a URL without its scheme; nil for other sources.
    private mutating func named(_ text: String, _ location: LineLocation? = nil) -> Input? {
        if isExcluded(text) { return nil }
        if Self.isURL(text) { return Self.url(text) }
        let path = URL(fileURLWithPath: text).standardizedFileURL.path
        if let location, Self.hostWithoutScheme(text) != nil, !FileManager.default.fileExists(atPath: path) {
            let reason = "there is no such file.\(Self.schemeAdvice(text))"
            return .refused(line: text, reason: reason, location: location)
        }
        // A relative path keeps its components in the output tree; an absolute one keeps those from the root.
        let shown = text.utf8.first == UInt8(ascii: "/") || text.hasParentComponent ? path : text
        return Self.file(path, components: shown.pathComponents().filter { $0 != "." }.map(String.init))
    }

    private static let jobInList =
        "it begins with \"{\" like a job, but this list can only name sources. Put jobs into a .jsonl file, or name "
        + "the list with --jobs-from. Write a path that begins with \"{\" as ./{…"

    private static let zeroByte =
        "it has a zero byte, which no path has. --null (-0) is for names that end with one, as of find -print0"

    private static let noUTF8 =
        "it is not UTF-8. Save the list as UTF-8; give a file with such a name another one"

    private static let tooLong = "it is longer than \(LineReader.lineLimit) bytes"
}
