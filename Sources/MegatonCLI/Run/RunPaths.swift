import Foundation
import MegatonCommandLine
import SystemPackage

/// Paths that a run reads and writes.
struct RunPaths: Sendable {
    /// The output directory, absolute; nil if a ledger is retried, whose jobs have their own outputs.
    let output: String?
    /// Path of the ledger to write.
    let ledger: String
    /// Directories that the run's own workers may read, besides those of `--allow-root` and the output directory:
    /// inputs that the user named on the command line, as directories or as parents of files and lists. Files that a
    /// list names elsewhere need `--allow-root` or `--allow-read`.
    let readRoots: [String]
    /// Directories that the run's own workers may write to, besides those of `--allow-root`.
    let outputRoots: [String]

    /// Creates the output directory. Reads the whole ledger of `--retry-failed` and blocks: call this on a thread of
    /// its own.
    ///
    /// - Parameters:
    ///   - writesFiles: whether the outputs are files of the workers, and not shards.
    ///   - isStopped: as that of `RetryLedger.readRoots`.
    /// - Throws: `CLIError` if the directory cannot be created, or is an input too, or 130 if the reading was stopped.
    init(
        _ options: BatchOptions,
        output: String?,
        writesFiles: Bool = true,
        isStopped: () -> Bool = { false }
    ) throws {
        self.output = try output.map { try Self.prepare($0, inputs: options.inputs) }
        let retried = options.retryFailed.map(RetryLedger.init)
        ledger = Self.ledger(options, output: self.output)
        try options.checkLedger(ledger)
        let roots = Self.inputRoots(options) + (try retried?.readRoots(isStopped: isStopped) ?? [])
        // A set of strings would keep one of two directories whose names differ only in Unicode normalization.
        readRoots = Set(roots.map { FilePath($0) }).map(\.string).sorted()
        outputRoots = (writesFiles ? [self.output].compactMap { $0 } : []) + (retried.map { [$0.directory] } ?? [])
    }

    /// Path of the ledger that a run writes.
    ///
    /// - Parameter output: the output directory, absolute; nil if a ledger is retried.
    static func ledger(_ options: BatchOptions, output: String?) -> String {
        if let ledger = options.ledger { return LedgerPath.absolute(ledger) }
        if let retried = options.retryFailed { return RetryLedger(path: retried).nextPath }
        return output.map { "\($0)/megaton-ledger.jsonl" } ?? LedgerPath.absolute("megaton-ledger.jsonl")
    }

    /// The absolute path of an output directory.
    ///
    /// - Throws: `CLIError` if it is an input too.
    static func checked(_ output: String, inputs: [String]) throws -> String {
        let path = FileNames.absolutePath(output)
        // Links are resolved, so that two names of one directory are equal.
        for input in inputs.map(FileNames.localPath) where real(FileNames.absolutePath(input)) == real(path) {
            throw CLIError.usage(
                "--output \(output) is also an input: the next run would read the outputs of this one. Name another "
                    + "directory."
            )
        }
        return path
    }

    private static func prepare(_ output: String, inputs: [String]) throws -> String {
        let path = try checked(output, inputs: inputs)
        var isDirectory: ObjCBool = false
        if FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory), !isDirectory.boolValue {
            throw CLIError.output("the output \(output) is a file, not a directory. Name a directory with --output.")
        }
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        } catch {
            throw CLIError.output("the output directory \(output) cannot be created: \(CLIError.reason(error)).")
        }
        return path
    }

    private static func real(_ path: String) -> FilePath {
        FilePath(URL(fileURLWithPath: path).resolvingSymlinksInPath().path)
    }

    private static func inputRoots(_ options: BatchOptions) -> [String] {
        var roots: [String] = []
        let inputs = options.inputs.map(FileNames.localPath) + options.jobsFrom
        let selection = options.selection(output: nil)
        // A list usually names files below the working directory.
        let hasList =
            !options.jobsFrom.isEmpty
            || inputs.contains { input in
                // A sitemap names no files.
                selection.listFormat(of: input).map { $0 != .sitemap } ?? false
            }
        if hasList { roots.append(FileManager.default.currentDirectoryPath) }
        for input in inputs where input != "-" && !InputReader.isURL(input) {
            let path = FileNames.absolutePath(input)
            var isDirectory: ObjCBool = false
            guard FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory) else { continue }
            roots.append(isDirectory.boolValue ? path : (path as NSString).deletingLastPathComponent)
        }
        return roots
    }
}
