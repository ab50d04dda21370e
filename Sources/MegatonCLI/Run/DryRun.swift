import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import Synchronization

/// `--dry-run`: prints the outputs that a run would write, and writes none.
struct DryRun: Sendable {
    private let options: BatchOptions
    private let selection: InputSelection
    private let roots: [String]?
    private let files: [String]
    private let remote: RemoteInputs?
    private let objects: OutputBucket?

    /// The object that `--json` prints.
    private struct Summary: Codable {
        var jobs = 0
        /// Each job with a preset counts as one.
        var outputs = 0
        /// Jobs with a preset: only the coordinator knows how many outputs they have.
        var presets = 0
        /// Outputs whose path has a file now.
        var existing = 0
        /// Lines that are not jobs, or are refused, and files whose names are not UTF-8.
        var invalid = 0
    }

    private static let readAtOnce = 500

    /// Creates a dry run.
    ///
    /// - Parameters:
    ///   - output: the output directory, absolute.
    ///   - fileExtensions: file extensions that are selected in directories.
    ///   - roots: directories that outputs may go to; nil leaves that to the workers.
    ///   - files: files beside the inputs that no output may replace.
    ///   - objects: destination of the outputs if they are objects; nil for files.
    ///   - remote: nil if no input is read over the network.
    init(
        _ options: BatchOptions,
        output: String?,
        fileExtensions: Set<String> = InputReader.defaultFileExtensions,
        roots: [String]? = nil,
        files: [String] = [],
        objects: OutputBucket? = nil,
        remote: RemoteInputs? = nil
    ) {
        self.options = options
        selection = options.selection(output: output, objects: objects, fileExtensions: fileExtensions)
        self.roots = roots
        self.files = files
        self.remote = remote
        self.objects = objects
    }

    /// - Throws: `CLIError` if an input cannot be read; `ExitCode` 2 if a line is not a job, a name is not UTF-8, or a
    ///   job of the ledger is left out.
    func run() async throws {
        let builder = try options.jobBuilder(
            batch: "dry-run",
            selection,
            roots: roots,
            files: files,
            objects: objects
        )
        let thread = try ReadingThread(selection, builder, remote)
        let total = Mutex(Summary())
        do {
            // Lines that are not jobs are reported when all have been read.
            defer { thread.stop() }
            while let goesOn = try await thread.next(
                Self.readAtOnce,
                { jobs in
                    try total.withLock { summary in try jobs.allSatisfy { try report($0, &summary) } }
                }
            ), goesOn {}
        }
        let summary = total.withLock { $0 }
        let (leftOut, notRetried) = (thread.leftOut.excluded, thread.notRetried)
        if options.json { try Terminal.output(JSONText.pretty(summary)) }
        if leftOut > 0 { Terminal.note("megaton: \(Counted.of(leftOut, "input")) left out by --exclude.") }
        let count = (summary.presets > 0 ? "at least " : "") + Counted.of(summary.outputs, "output")
        Terminal.note(
            "megaton: \(count) of \(Counted.jobs(summary.jobs)) would be made, \(summary.existing) of them where a "
                + "file exists already; no image was fetched, and nothing was written."
        )
        notRetried.report()
        if summary.invalid > 0 || !notRetried.isEmpty { throw ExitCode(2) }
    }

    /// - Returns: false if standard output has no reader any more.
    private func report(_ built: JobBuilder.BuiltJob, _ summary: inout Summary) throws -> Bool {
        guard let job = built.job, job.refused == nil else {
            summary.invalid += 1
            // Others were reported with the location of their line.
            if let reason = built.job?.refused, reason.hasPrefix("\""), reason.hasSuffix(JobBuilder.userInSource) {
                Terminal.error("megaton: the job is refused: \(TextColumns.oneLine(reason)).")
            }
            return true
        }
        if Self.isUnreadable(job.source) {
            summary.invalid += 1
            Terminal.error(
                "megaton: \(TextColumns.oneLine(job.source)) is not UTF-8; a run would fail it as invalid_url."
            )
            return true
        }
        summary.jobs += 1
        if job.preset != nil { summary.presets += 1 }
        for output in try outputs(of: job) {
            summary.outputs += 1
            var info = stat()
            // No file is at the URL of an object.
            let exists = output.hasPrefix("/") && lstat(output, &info) == 0
            if exists { summary.existing += 1 }
            if options.json { continue }
            let note = !exists ? "" : job.replace == .nothing ? " (an input exists there)" : " (a file exists there)"
            let line = "\(TextColumns.oneLine(Self.name(job.source))) -> \(TextColumns.oneLine(output))\(note)"
            if try !Terminal.output(line) { return false }
        }
        return true
    }

    private func outputs(of job: Job) throws -> [String] {
        guard job.kind == .process else { return ["the cache, as it was fetched"] }
        let renditions = job.renditions ?? Job.defaultRenditions
        guard let output = job.output else {
            if let preset = job.preset { return ["the cache, by the preset \(preset)"] }
            return renditions.map { "the cache, \($0.name).\($0.format.fileExtension)" }
        }
        let template: OutputTemplate
        do throws(JobError) { template = try OutputTemplate(output) } catch {
            throw CLIError.usage("\(output): \(error.message).")
        }
        // Neither the outputs of the coordinator's preset nor the size of the result are known here.
        if job.preset != nil { return [output] }
        if template.usesSize {
            return renditions.map { rendition in
                output.replacingOccurrences(of: "{name}", with: rendition.name)
                    .replacingOccurrences(of: "{ext}", with: rendition.format.fileExtension)
            }
        }
        let size = PixelSize(width: 0, height: 0)
        return renditions.map {
            template.path(source: job.source, rendition: $0, size: size, id: job.id, labels: job.labels)
        }
    }

    /// Whether a source names a file by bytes that are not UTF-8: a worker fails it as `invalid_url`.
    private static func isUnreadable(_ source: String) -> Bool {
        guard source.prefix(5).lowercased() == "file:", let url = URL(string: source) else { return false }
        return url.path(percentEncoded: false).isEmpty && !url.path(percentEncoded: true).isEmpty
    }

    /// The name of a source to show: a local file as a path, another URL unchanged.
    private static func name(_ source: String) -> String {
        source.count > 500 ? "\(source.prefix(499))…" : FileNames.localPath(source)
    }
}
