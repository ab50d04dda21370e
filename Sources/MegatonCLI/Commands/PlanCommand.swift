import ArgumentParser
import Foundation
import MegatonCommandLine

/// `megaton plan`
struct PlanCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plan",
        abstract: "Show the work of a run before it: new, kept, replaced and orphaned outputs, and their cost.",
        discussion: """
            Examples:
              megaton plan photos -o thumbs
              megaton plan photos -o thumbs --size 320 --size 1280x --format webp --all
              megaton plan urls.txt -o thumbs --refresh --json
              megaton plan urls.txt -o tar:dataset

            It takes the arguments of megaton run, and compares the outputs with the files beneath --output and with \
            the ledger of the last run; with --output tar:DIR, the jobs with those that the shards have. Objects of \
            s3: are not looked at. Nothing is fetched, rendered, written or deleted, and no Redis is used; inputs \
            that are buckets or sitemaps are listed. The estimate has the mean sizes and times of the last ledger: \
            outputs and originals that a cache has cost less.

            Exit codes: 0, 2 if inputs are no jobs, 64 wrong usage, 69 an input is not reachable, 74 shards cannot be \
            read or standard output cannot be written.
            """
    )

    @OptionGroup(title: "Inputs and Jobs") var batchOptions: BatchOptions
    @OptionGroup(title: "Lists") var lists: ListOptions
    @OptionGroup(title: "Renditions") var renditions: RenditionOptions
    @OptionGroup(title: "Presets") var presets: PresetOptions
    @OptionGroup(title: "Redis") var redisOptions: RedisOptions
    @OptionGroup(title: "Workers") var workerOptions: WorkerOptions
    @OptionGroup(title: "Access to Sources") var access: SourceAccessOptions
    @OptionGroup(title: "Limits of Sources") var limits: SourceLimitOptions
    @OptionGroup(title: "Outputs and Processes") var options: RunOptions

    @Flag(name: .long, help: "Also list the outputs, each with its category.")
    var all = false

    @Option(name: .long, help: ArgumentHelp("Maximum number of outputs that --all lists.", valueName: "number"))
    var limit = 1000

    mutating func validate() throws {
        try batchOptions.take(lists, renditions, presets)
        workerOptions.take(access, limits)
        try options.take(batchOptions, redisOptions, workerOptions)
        try OptionRange.check("--limit", limit, 1...1_000_000)
    }

    func run() async throws {
        try await reportingFailures {
            try StandardStreams.requireOutput(for: "the plan")
            try options.check()
            Terminal.isQuiet = options.batch.quiet
            try await options.plan(.summary(shown: all ? limit : 0))
        }
    }
}
