import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Options of a batch: its inputs, their renditions, and the output.
struct BatchOptions: ParsableArguments {
    @Argument(
        help: ArgumentHelp(
            "Image files, directories (recursive), http(s) URLs, s3://bucket/prefix/ with all images of a bucket that "
                + "begin so, .txt lists (one URL or path per line; "
                + "relative paths begin at the current directory), .csv and .tsv lists (one URL or path per row), "
                + ".jsonl lists (one job per line), .xml sitemaps, or - for a .txt list on standard input.",
            valueName: "input"
        ),
        completion: .file()
    )
    var inputs: [String] = []

    @Option(
        name: .customLong("retry-failed"),
        help: ArgumentHelp(
            "Repeat the failed jobs of a ledger with the renditions and outputs that they had. Options of access, such "
                + "as --allow-private, are those of this command. Cancelled jobs are left out: run the cancelled "
                + "command again.",
            valueName: "ledger.jsonl"
        ),
        completion: .file()
    )
    var retryFailed: String?

    @Option(
        name: .customLong("jobs-from"),
        help: ArgumentHelp(
            "Read jobs from a file of any name, one JSON object per line, or from standard input with -. Repeatable.",
            valueName: "file"
        ),
        completion: .file()
    )
    var jobsFrom: [String] = []

    /// The further groups of a batch, which the commands declare and `take` sets: in debug builds, the parser examines
    /// a group within a group five times as often.
    /// Whether the user has named the batch, with `--batch` of `submit`.
    var isBatchNamed = false
    private(set) var lists = ListOptions()
    private(set) var renditions = RenditionOptions()
    private(set) var presets = PresetOptions()

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Leave out inputs whose name matches a shell pattern: '*.gif'. A pattern with a slash is compared with "
                + "the path: 'old/*'. Repeatable.",
            valueName: "pattern"
        )
    )
    var exclude: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Names of the outputs below --output, with {path}, {stem}, {name}, {ext}, {host}, {hash}, {width}, "
                + "{height}, {id} and {label.x}; '{path}/{stem}-{name}.{ext}' by default.",
            valueName: "template"
        )
    )
    var name: String?

    @Option(
        name: .customLong("shard-size"),
        help: ArgumentHelp("Size at which a shard of --output tar:DIR is full; 1024 by default.", valueName: "MiB")
    )
    var shardSize: Int?

    @Option(
        name: .customLong("shard-count"),
        help: ArgumentHelp("Jobs at which a shard of --output tar:DIR is full; 100000 by default.", valueName: "number")
    )
    var shardCount: Int?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Facts about each source that the ledger has beside its size, format, colors and placeholder: exif (date, "
                + "make and model of the camera) and phash (a perceptual hash), separated by commas; none for no facts "
                + "at all.",
            valueName: "facts"
        )
    )
    var facts: String?

    @Flag(
        name: .long,
        help: "Fetch and render again, whatever the cache has, and replace the images."
    )
    var force = false

    @Flag(
        name: .long,
        help: ArgumentHelp(
            "Ask origins whether cached originals are still valid, whatever their age, and replace the images of "
                + "those that are not."
        )
    )
    var refresh = false

    @Flag(
        name: .long,
        help: "Let outputs also replace files that are not images of their format. Inputs are never replaced."
    )
    var overwrite = false

    @Flag(name: .customLong("dry-run"), help: "Print what would be made. No image is fetched, and nothing is written.")
    var dryRun = false

    @Option(name: .long, help: "Maximum number of attempts of a job.")
    var attempts = 5

    @Option(
        name: .long,
        help: "high, normal or bulk: waiting jobs of these share the workers by 16 to 4 to 1.",
        completion: .list(Job.Priority.allCases.map(\.rawValue))
    )
    var priority = "normal"

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Credential for http, https and s3 sources, by its name in the --credentials file of the workers.",
            valueName: "name"
        )
    )
    var credential: String?

    @Option(name: .long, help: "Share of the workers beside other batches, 1 to 100.")
    var weight = 1

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Sources that are queued as one job, up to 256, if they differ in nothing else; 0 for none. By default 64, "
                + "after the first 4096 jobs.",
            valueName: "number"
        )
    )
    var pack: Int?

    @Flag(name: .long, help: "Do jobs with the same source, renditions and output only once.")
    var deduplicate = false

    @Option(
        name: .long,
        help: ArgumentHelp(
            "File for the ledger, a JSON line for each job; missing directories are created, and - is standard "
                + "output. By default run writes "
                + "megaton-ledger.jsonl in --output, or in the current directory if that is s3:, and for "
                + "--retry-failed a new file beside that ledger; submit writes none.",
            valueName: "file.jsonl"
        ),
        completion: .file()
    )
    var ledger: String?

    @Flag(
        name: .long,
        help: ArgumentHelp(
            "Write report.html beside the ledger: totals, failures, slow jobs and all images on one page. If that is "
                + "the page of another ledger, the name is that of the ledger."
        )
    )
    var report = false

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Time limit of the whole command. When it ends, run cancels the rest, and submit --wait stops waiting; "
                + "the exit code is 75.",
            valueName: "seconds"
        )
    )
    var timeout: Double?

    @Flag(name: .long, help: "End with one JSON object on standard output.")
    var json = false

    @Flag(name: [.long, .customShort("q")], help: "Print errors only: no progress and no summary.")
    var quiet = false

    mutating func validate() throws {
        if !hasInputs && retryFailed == nil { throw ValidationError("Name at least one input.") }
        try OptionRange.check("--attempts", attempts, 1...100)
        if force && refresh {
            throw ValidationError(
                "--force and --refresh exclude each other: --force fetches everything again, and --refresh what has "
                    + "changed."
            )
        }
        if let credential, !Job.isName(credential) {
            throw ValidationError("--credential must be a name of \(Job.nameRule)")
        }
        if let timeout, !(timeout > 0 && timeout < 1e9) {
            throw ValidationError("--timeout must be a number of seconds, more than 0, not \(timeout.formatted()).")
        }
        _ = try wantedFacts()
        try OptionRange.check("--weight", weight, 1...BatchPolicy.maximumWeight)
        try OptionRange.check("--pack", pack, 0...Pack.maximumSources)
        if Job.Priority(rawValue: priority) == nil {
            throw ValidationError("--priority must be high, normal or bulk, not \"\(priority)\".")
        }
        if inputs.contains("") {
            throw ValidationError("An input is empty; it must name a file, a directory or a URL.")
        }
        let files = [("--ledger", ledger), ("--retry-failed", retryFailed)] + jobsFrom.map { ("--jobs-from", $0) }
        for (option, path) in files where path?.isEmpty == true {
            throw ValidationError("\(option) is empty; it must name a file.")
        }
        if let ledger { try LedgerPath.check(ledger) }
        if exclude.contains("") { throw ValidationError("--exclude is empty; it must be a pattern like '*.gif'.") }
        if let pattern = exclude.first(where: Exclusions.hasOpenBracket) {
            throw ValidationError(
                "--exclude '\(pattern)' has a [ without a ]; a pattern like '*.[gG]if' has both, and '\\[' stands "
                    + "for the character."
            )
        }
        if json && ledger.map(LedgerPath.absolute) == LedgerPath.standardOutput {
            if OptionOrigins.ranksAbove("--ledger", "--json") {
                json = false
            } else if OptionOrigins.ranksAbove("--json", "--ledger") {
                ledger = nil
            }
        }
        if json && ledger.map(LedgerPath.absolute) == LedgerPath.standardOutput {
            throw ValidationError("--json and --ledger \(ledger ?? "") both write to standard output; choose one.")
        }
        if report, let ledger, LedgerPath.descriptor(of: ledger) != nil {
            if OptionOrigins.ranksAbove("--ledger", "--report") {
                report = false
            } else if OptionOrigins.ranksAbove("--report", "--ledger") {
                self.ledger = nil
            }
        }
        if report, let ledger, LedgerPath.descriptor(of: ledger) != nil {
            throw ValidationError("--report needs a ledger that is a file, and --ledger \(ledger) is none.")
        }
        if (inputs + jobsFrom).filter({ $0 == "-" }).count > 1 {
            throw ValidationError("Standard input can be read once only: name - once, as an input or with --jobs-from.")
        }
    }

    /// Takes the further groups of a batch from its command, and checks the options that depend on them.
    mutating func take(_ lists: ListOptions, _ renditions: RenditionOptions, _ presets: PresetOptions) throws {
        (self.lists, self.renditions, self.presets) = (lists, renditions, presets)
        if presets.preset != nil, let option = renditions.given {
            throw ValidationError(
                "\(option) does not go with --preset: the preset has all options of its renditions. Leave out one of "
                    + "them."
            )
        }
        try lists.refuseOptionsWithoutEffect(inputs, selection(output: nil))
        // Beside inputs, these options apply to the inputs.
        if !hasInputs, retryFailed != nil, let option = givenRenditionOption, !OptionOrigins.isConfigured(option) {
            throw ValidationError(
                "\(option) does not go with --retry-failed alone: failed jobs are repeated with their original "
                    + "options. For other renditions, name the inputs."
            )
        }
    }

    /// The facts of `--facts`; nil if it was not given.
    ///
    /// - Throws: `ValidationError` for an unknown word, and for `none` beside others.
    func wantedFacts() throws -> [Job.OptionalFact]? {
        guard let facts else { return nil }
        if facts == "none" { return [] }
        var wanted: [Job.OptionalFact] = []
        for word in facts.split(separator: ",", omittingEmptySubsequences: false) {
            guard let fact = Job.OptionalFact(word: String(word)) else {
                throw ValidationError(
                    "--facts must be none, or a list of \(Job.OptionalFact.allowedWords) with commas, not \"\(facts)\"."
                )
            }
            if !wanted.contains(fact) { wanted.append(fact) }
        }
        return wanted
    }

    /// The first option that says which renditions are made; nil if none was given.
    var givenRenditionOption: String? { renditions.given ?? presets.preset.map { _ in "--preset" } }

    /// Whether there are inputs beside the ledger of `--retry-failed`.
    var hasInputs: Bool { !inputs.isEmpty || !jobsFrom.isEmpty }

    /// - Throws: `ValidationError` if --output would have no effect: each job of a ledger has its own output.
    func refuseOutputOfRetry() throws {
        if let problem = shardLedgerProblem { throw ValidationError(problem) }
        if !hasInputs, retryFailed != nil {
            throw ValidationError(
                "--output does not go with --retry-failed alone: the jobs keep their original outputs."
            )
        }
    }

    /// Whether an input is read over the network before its images are known.
    var hasRemoteInputs: Bool {
        let selection = selection(output: nil)
        return inputs.contains(where: selection.isRemote)
    }

    /// Checks inputs and ledgers before any work begins.
    ///
    /// - Parameter fileExtensions: file extensions of images.
    /// - Throws: `CLIError` for the first one that is missing or cannot be used.
    func check(fileExtensions: Set<String> = InputReader.defaultFileExtensions) throws {
        if dryRun { try StandardStreams.requireOutput(for: "the list of --dry-run") }
        if json { try StandardStreams.requireOutput(for: "the object of --json") }
        try InputCheck(selection(output: nil, fileExtensions: fileExtensions)).run()
        if let problem = shardLedgerProblem { throw CLIError.usage(problem) }
        if let retryFailed { try RetryLedger(path: retryFailed).check() }
        _ = try presets.load()
        if let ledger { try checkLedger(ledger) }
        if report, let ledger { try ReportPage.check(ReportPage.path(beside: LedgerPath.absolute(ledger))) }
    }

    /// - Throws: `CLIError` if the ledger would overwrite an input.
    func checkLedger(_ path: String) throws {
        guard LedgerPath.descriptor(of: path) == nil else { return }
        let files =
            inputs.map(FileNames.localPath) + jobsFrom + [retryFailed, presets.presets].compactMap { $0 }
        for input in files where input != "-" && RetryLedger.isSame(input, path) {
            throw CLIError.usage("the ledger would overwrite the input \(input). Name another file with --ledger.")
        }
    }

    /// The end of `--timeout`; nil if there is none.
    ///
    /// - Parameter begin: start of the command, so that all of its waits count.
    func deadline(from begin: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        timeout.map { begin + .seconds($0) }
    }

    /// Options of the batch for Redis.
    func policy(keepsLedger: Bool) -> BatchPolicy {
        BatchPolicy(keepsLedger: keepsLedger, deduplicates: deduplicate, weight: weight)
    }

    /// The inputs and the exclusions.
    ///
    /// - Parameters:
    ///   - output: the output directory, absolute.
    ///   - objects: destination of the outputs if they are objects.
    ///   - fileExtensions: file extensions that are selected in directories.
    func selection(
        output: String?,
        objects: OutputBucket? = nil,
        fileExtensions: Set<String> = InputReader.defaultFileExtensions
    ) -> InputSelection {
        var selection = InputSelection(
            arguments: inputs,
            jobLists: jobsFrom,
            ledger: retryFailed,
            output: output,
            fileExtensions: fileExtensions,
            exclusions: Exclusions(exclude)
        )
        selection.objects = objects
        selection.requiredFields = fieldsOfNames
        lists.apply(to: &selection)
        return selection
    }
}

/// Names of the ledger's file on the command line.
enum LedgerPath {
    /// The path that stands for standard output.
    static let standardOutput = "-"

    /// - Throws: `ValidationError` for a URL, of which a directory would be created.
    static func check(_ text: String) throws {
        guard FileNames.beginsWithScheme(text) else { return }
        throw ValidationError("--ledger \(text) is a URL, and a ledger is a file: name it by its path.")
    }

    /// The absolute path, or ``standardOutput`` for any of its names.
    static func absolute(_ text: String) -> String {
        if ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].contains(text) { return standardOutput }
        return FileNames.absolutePath(text)
    }

    /// The subject of messages about a ledger.
    static func name(_ path: String) -> String {
        path == standardOutput ? "the ledger on standard output" : "the ledger \(path)"
    }

    /// The open descriptor that a path stands for, if any. To open a file by such a name would write from its start.
    static func descriptor(of path: String) -> Int32? {
        if absolute(path) == standardOutput { return STDOUT_FILENO }
        if path == "/dev/stderr" { return STDERR_FILENO }
        for start in ["/dev/fd/", "/proc/self/fd/"] where path.hasPrefix(start) {
            return Int32(path.dropFirst(start.count)).flatMap { fcntl($0, F_GETFD) >= 0 ? $0 : nil }
        }
        return nil
    }
}
