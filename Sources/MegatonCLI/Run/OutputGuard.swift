import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import SystemPackage

/// Decides for each job of a run which directories its outputs may go to, and which files they may replace.
///
/// An input of the run is never replaced. The inputs are looked up when the path of an output is found to exist, so
/// that a first run, which finds no outputs, reads its lists only once. Lines of a pipe count as inputs once they have
/// been read. Asks the file system, and so blocks.
struct OutputGuard: Sendable {
    /// Identity of a file, under any of its names.
    private struct FileID: Hashable, Sendable {
        let device: UInt64
        let inode: UInt64

        init(_ info: stat) {
            device = UInt64(info.st_dev)
            inode = UInt64(info.st_ino)
        }

        /// The file, and the link if the path is one.
        static func all(_ path: String) -> [FileID] {
            var info = stat()
            var found: [FileID] = []
            if lstat(path, &info) == 0 { found.append(FileID(info)) }
            if info.st_mode & S_IFMT == S_IFLNK, stat(path, &info) == 0 { found.append(FileID(info)) }
            return found
        }
    }

    private let selection: InputSelection
    private let replacesAll: Bool
    /// Directories that outputs may go to, links resolved; nil if only the workers know them.
    private let roots: [FilePath]?
    /// Lists, ledgers and other files of the run itself.
    private let own: Set<FileID>
    /// Nil until they are needed.
    private var inputs: Set<FileID>?
    private var streamed: Set<FileID> = []
    private let isStreamed: Bool
    /// Why not all inputs are known, and a remedy: no file is replaced then. Nil if they are.
    private var ignorance: (reason: String, remedy: String)?
    /// Whether a job may replace no file for that.
    private var isIgnoranceEffective = false
    private var hasRemarked = false
    /// Maximum number of files remembered: 16 bytes each, and as much for the table.
    private let limit: Int
    /// Directories resolved most recently.
    private var resolved: [FilePath: FilePath] = [:]

    private static let resolvedLimit = 1000

    /// Creates a guard.
    ///
    /// - Parameters:
    ///   - overwrites: whether outputs may replace files of any type.
    ///   - roots: directories that outputs may go to; nil leaves that to the workers.
    ///   - files: files beside the inputs that no output may replace.
    ///   - limit: maximum number of files remembered.
    init(
        _ selection: InputSelection,
        overwrites: Bool,
        roots: [String]?,
        files: [String],
        limit: Int = 5_000_000
    ) {
        self.selection = selection
        self.limit = limit
        replacesAll = overwrites
        self.roots = roots.map { roots in roots.map { Self.resolve(FilePath($0)) } }
        own = Set((selection.lists + files).flatMap(FileID.all))
        isStreamed = !selection.isRepeatable
    }

    /// Remembers the sources of jobs from a pipe.
    mutating func note(_ sources: some Sequence<String>) {
        guard isStreamed, ignorance == nil else { return }
        for source in sources { streamed.formUnion(Self.path(ofSource: source).map(FileID.all) ?? []) }
        if streamed.count > limit { ignorance = tooMany }
    }

    /// A sentence about jobs that may replace no file, as not all inputs are known; nil if there are none. Nil again
    /// once it was returned.
    mutating func takeRemark() -> String? {
        guard isIgnoranceEffective, !hasRemarked, let ignorance else { return nil }
        hasRemarked = true
        return "no file is replaced, as \(ignorance.reason): a job whose output is there with other content fails as "
            + "output_exists, also with --overwrite and --force. \(ignorance.remedy)"
    }

    /// Sets the files that a job's outputs may replace, or refuses the job. Of the job's own choices only `none` stays:
    /// a list may not decide which other files of the operator are replaced.
    ///
    /// - Parameter isOwn: whether the job named the output itself.
    mutating func admit(_ job: inout Job, isOwn: Bool) {
        if job.replace != .nothing { job.replace = replacesAll ? .all : nil }
        guard job.kind == .process, let output = job.output else { return }
        let template: OutputTemplate
        do {
            template = try OutputTemplate(output)
        } catch {
            return  // The coordinator refuses the job with this error.
        }
        // For objects, the workers decide: they know their buckets, and look each object up.
        let isObject = template.bucket != nil
        if isOwn, let reason = template.problem(with: job.labels) ?? (isObject ? nil : refusal(template, output)) {
            job.refused = reason
            return
        }
        if !isObject && mayReplaceInput(job, template) { job.replace = Job.Replacement.nothing }
    }

    private mutating func refusal(_ template: OutputTemplate, _ output: String) -> String? {
        guard let roots else { return nil }
        let directory = FilePath(template.directory)
        let real = resolved[directory] ?? Self.resolve(directory)
        if resolved.count >= Self.resolvedLimit { resolved = [:] }
        resolved[directory] = real
        if roots.contains(where: real.starts) { return nil }
        let known = roots.map(\.string).joined(separator: ", ")
        return "the output \(output) is outside of the directories that this run may write to (\(known)); "
            + "--allow-root DIR allows another one"
    }

    // MARK: - Inputs

    private mutating func mayReplaceInput(_ job: Job, _ template: OutputTemplate) -> Bool {
        // Output names that depend on the coordinator's preset or the result's size are unknown: no input is risked for
        // them.
        if template.usesSize || job.preset != nil {
            if !knownInputs().isEmpty || !streamed.isEmpty { return true }
            return noteIgnorance()
        }
        for rendition in job.renditions ?? Job.defaultRenditions {
            let path = template.path(
                source: job.source,
                rendition: rendition,
                size: PixelSize(width: 0, height: 0),
                id: job.id,
                labels: job.labels
            )
            let found = FileID.all(path)
            if found.isEmpty { continue }
            let inputs = knownInputs()
            if noteIgnorance() { return true }
            for file in found where own.contains(file) || inputs.contains(file) || streamed.contains(file) {
                return true
            }
        }
        return false
    }

    /// Whether not all inputs are known.
    private mutating func noteIgnorance() -> Bool {
        if ignorance == nil { return false }
        isIgnoranceEffective = true
        return true
    }

    private var tooMany: (reason: String, remedy: String) {
        (
            "the inputs are more than \(limit) files, too many to compare with the outputs",
            "Name parts of the inputs in several runs, or an empty directory with --output."
        )
    }

    private mutating func knownInputs() -> Set<FileID> {
        if let inputs { return inputs }
        var found: Set<FileID> = []
        do {
            var reader = try InputReader(selection.repeatable, isReporting: false)
            while !reader.isAtEnd && ignorance == nil {
                if reader.request != nil {
                    ignorance = ("an input names others that must be loaded first", "Name it in a run of its own.")
                    break
                }
                for source in try reader.next(1000).flatMap(Self.sources) {
                    found.formUnion(Self.path(ofSource: source).map(FileID.all) ?? [])
                }
                if found.count > limit { ignorance = tooMany }
            }
        } catch {
            // Unless the error was a passing one, the reader of the run meets it too, and ends the run with it.
            let message = (error as? CLIError)?.message ?? CLIError.reason(error)
            ignorance = ("the inputs could not be read a second time", "The error was: \(message)")
        }
        inputs = found
        return found
    }

    static func sources(of input: Input) -> [String] {
        switch input {
        case .source(let url, _): return [url]
        case .row(let row): return [row.url]
        case .job(let line, _):
            // Not a job: the coordinator reports why.
            if let job = try? Job(json: line) { return [job.source] }
            return Pack.line(line, id: "")?.jobs.map(\.source) ?? []
        case .refused: return []
        }
    }

    private static func path(ofSource source: String) -> String? {
        guard source.prefix(5).lowercased() == "file:", let url = URL(string: source), url.isFileURL else { return nil }
        return url.path(percentEncoded: false)
    }

    // MARK: - Directories

    /// The path from the root, with links resolved in the part of it that exists.
    private static func resolve(_ path: FilePath) -> FilePath {
        FileAccess.resolved(FilePath(root: "/", path.components.filter { $0.kind != .currentDirectory })).path
    }
}
