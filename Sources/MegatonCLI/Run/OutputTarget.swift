import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Destination of a batch's outputs: the value of `--output`.
enum OutputTarget: Sendable, Equatable {
    /// Files of the workers, beneath a directory.
    case directory(String)
    /// Shards that the client writes, in a directory.
    case shards(String)
    /// Objects beneath `s3://bucket/prefix`.
    case objects(String)

    private static let shardPrefix = "tar:"

    private static let objectPrefix = "s3://"

    /// - Parameter text: a path, `tar:` and a path, or `s3://bucket/prefix`.
    init(_ text: String) {
        if text.hasPrefix(Self.shardPrefix) {
            self = .shards(String(text.dropFirst(Self.shardPrefix.count)))
        } else {
            self = text.lowercased().hasPrefix(Self.objectPrefix) ? .objects(text) : .directory(text)
        }
    }

    /// The directory; nil for objects.
    var directory: String? {
        switch self {
        case .directory(let path), .shards(let path): path
        case .objects: nil
        }
    }

    /// The bucket and the prefix of objects; nil for files and shards.
    ///
    /// - Throws: `ValidationError` if there can be no such bucket.
    func bucket() throws -> OutputBucket? {
        guard case .objects(let text) = self else { return nil }
        if let mark = text.first(where: { $0 == "?" || $0 == "#" }) {
            throw ValidationError(
                "--output \(text) has a \(mark == "?" ? "query" : "fragment"), which objects do not have: write %3F for a "
                    + "question mark, and %23 for a number sign."
            )
        }
        // A URL, as an input is.
        guard let decoded = String(text.dropFirst(Self.objectPrefix.count)).removingPercentEncoding else {
            throw ValidationError("--output \(text) has a broken percent-encoding: write %25 for a percent sign.")
        }
        do throws(JobError) {
            return try OutputBucket(decoded)
        } catch {
            throw ValidationError("--output \(text): \(error.message).")
        }
    }

    var isShards: Bool { if case .shards = self { true } else { false } }
}

extension BatchOptions {
    /// Checks `--output` with the options that go with it.
    ///
    /// - Throws: `ValidationError` if they contradict each other.
    mutating func checkOutput(_ output: String?) throws {
        let target = output.map(OutputTarget.init)
        if target?.directory?.isEmpty == true { throw ValidationError("--output is empty; it must name a directory.") }
        if let output, output.lowercased().hasPrefix("s3:"), case .directory? = target {
            let name = output.dropFirst("s3:".count).drop { $0 == "/" }
            throw ValidationError(
                "--output \(output) is no bucket: did you mean s3://\(name)? A directory of that name is ./\(output)."
            )
        }
        if let output, let directory = target?.directory, FileNames.beginsWithScheme(directory) {
            let files =
                target?.isShards == true ? "shards go to a directory of this machine" : "files go to a directory"
            throw ValidationError(
                "--output \(output) names a URL, and \(files): name it by its path, such as /srv/thumbs. Objects go to "
                    + "s3://bucket/prefix/."
            )
        }
        try OptionRange.check("--shard-size", shardSize, 1...1_048_576, " MiB")
        try OptionRange.check("--shard-count", shardCount, 1...1_000_000)
        guard target?.isShards == true else {
            let given = [("--shard-size", shardSize), ("--shard-count", shardCount)].filter { $0.1 != nil }
            if let option = given.first(where: { !OptionOrigins.isConfigured($0.0) })?.0 {
                throw ValidationError("\(option) is for shards: --output tar:DIR.")
            }
            if let bucket = try target?.bucket() { try refuseInput(bucket) }
            return try checkName(output: output)
        }
        if OptionOrigins.ranksAbove("--output", "--name") { name = nil }
        if name != nil {
            throw ValidationError(
                "--name does not go with --output tar:DIR: members of shards are named by the ids of their jobs."
            )
        }
        if dryRun {
            throw ValidationError(
                "--dry-run does not go with --output tar:DIR; megaton plan with the same options shows what would be made."
            )
        }
        let given = [("--force", force), ("--refresh", refresh)].filter { $0.1 && !OptionOrigins.isConfigured($0.0) }
        if let option = given.first?.0 {
            throw ValidationError(
                "\(option) does not go with --output tar:DIR, whose samples stay as they are: name another directory."
            )
        }
    }

    /// Why the ledger of `--retry-failed` cannot be used: its jobs have no output but the shards beside it, which know
    /// them by ids that a retry does not keep. Nil if it is not beside shards, or if there is none.
    var shardLedgerProblem: String? {
        guard let retryFailed, !retryFailed.isEmpty else { return nil }
        let directory = RetryLedger(path: retryFailed).directory
        guard FileManager.default.fileExists(atPath: "\(directory)/\(ShardNames.manifest)") else { return nil }
        return Self.isOfShards(retryFailed)
    }

    /// Refuses a retry of jobs without an output whose images would be nowhere: those of shards, also if the ledger is
    /// not beside them, and those that only the cache of this run would have. Reads the ledger, and blocks.
    ///
    /// - Parameters:
    ///   - target: destination of jobs that name no output; nil for the cache.
    ///   - isPrivate: whether the cache is that of this run alone.
    /// - Throws: `CLIError` if the ledger has such a job.
    func requireOutputOfRetry(_ target: OutputTarget?, isPrivate: Bool) throws {
        guard let retryFailed, target == nil || target?.isShards == true else { return }
        let ledger = RetryLedger(path: retryFailed)
        // An id of the job's own may also be that of a submission without --output, whose images stay in the cache.
        let isOfShards = try ledger.hasFailedJob { job in
            job.kind == .process && job.output == nil && (target != nil || ShardSample.mayBeMade(job.id ?? ""))
        }
        if isOfShards { throw CLIError.usage(Self.isOfShards(retryFailed)) }
        guard isPrivate, try ledger.hasFailedJob(where: { $0.kind == .process && $0.output == nil }) else { return }
        throw CLIError.usage(
            "--retry-failed: jobs of \(retryFailed) name no output, as those of shards and of a submission without "
                + "--output, and their images would stay in the private cache of this run. Run the command that wrote "
                + "the ledger again, or repeat a submission with megaton submit --retry-failed."
        )
    }

    private static func isOfShards(_ ledger: String) -> String {
        "--retry-failed: \(ledger) is a ledger of shards, to which a retry adds nothing. Run the command with --output "
            + "tar:DIR again: it repeats the jobs that failed."
    }

    /// - Throws: `ValidationError` if the objects are an input too.
    private func refuseInput(_ output: OutputBucket) throws {
        for input in inputs {
            // Invalid URLs are refused by the reader of the inputs.
            guard let url = URL(string: input), let prefix = try? S3Prefix(url), output.isSame(as: prefix) else {
                continue
            }
            throw ValidationError(
                "--output s3://\(output)/ is also an input: the next run would read the outputs of this one. Name "
                    + "another prefix."
            )
        }
    }

    /// Opens the shards in a directory, which is created.
    ///
    /// - Parameters:
    ///   - directory: absolute path.
    ///   - ledger: continued by the lines that it lacks.
    ///   - shutdown: its first signal ends the reading of the shards.
    /// - Throws: `CLIError` if they cannot be written, or have other renditions, or 130 after a signal.
    func shardOutput(
        _ directory: String?,
        _ ledger: Ledger?,
        unless shutdown: ShutdownSignal
    ) async throws -> ShardOutput? {
        guard let directory, let ledger else { return nil }
        do {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        } catch {
            throw CLIError.output("the directory \(directory) cannot be created: \(CLIError.reason(error)).")
        }
        return try await ShardOutput.open(
            directory,
            limits: shardLimits,
            renditions: try renditionIdentity(),
            ledger: ledger,
            unless: shutdown
        )
    }

    /// The shards that a directory has now.
    ///
    /// - Parameter directory: absolute path.
    /// - Throws: `CLIError` if a run could not continue them.
    func shardSurvey(_ directory: String) async throws -> ShardSurvey {
        let (limits, renditions) = (shardLimits, Checksum.sha256(Data(try renditionIdentity().utf8)))
        let thread = ThreadPool(name: "megaton-shards", count: 1)
        defer { thread.stop() }
        return try await thread.run { try ShardSurvey(directory, limits: limits, renditions: renditions) }
    }

    /// The renditions of the options as a text: another text stands for other renditions.
    private func renditionIdentity() throws -> String {
        let known = try presets.load()
        let preset = presets.preset.flatMap { known[$0] }
        // Only the coordinator knows this one.
        if preset == nil, let name = presets.preset { return "preset \(name)" }
        return try (preset ?? renditions.renditions()).map { ([$0.name] + $0.identity).joined(separator: " ") }
            .joined(separator: "\n")
    }

    /// The sizes at which a shard is full.
    private var shardLimits: TarShards.Limits {
        TarShards.Limits(size: (shardSize ?? 1024) * 1024 * 1024, count: shardCount ?? 100_000)
    }
}
