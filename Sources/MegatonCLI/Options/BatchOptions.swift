import ArgumentParser
import Foundation
import MegatonCluster
import MegatonPipeline

/// What a batch is made of: the inputs, what is made of them, and where it goes.
struct BatchOptions: ParsableArguments {
    @Argument(
        help: ArgumentHelp(
            "Image files, directories (recursive), http(s) URLs, .txt (one URL or path a line), .jsonl (one job a line), "
                + "or - for standard input.",
            valueName: "input"
        )
    )
    var inputs: [String] = []

    @Option(
        name: .customLong("retry-failed"),
        help: ArgumentHelp(
            "Do again what a ledger says has failed, as it was asked for then.",
            valueName: "ledger.jsonl"
        )
    )
    var retryFailed: String?

    @OptionGroup var renditions: RenditionOptions

    @Option(name: .long, help: "How often a job is tried at the most.")
    var attempts = 5

    @Option(name: .long, help: "high, normal or bulk.")
    var priority = "normal"

    @Option(
        name: .long,
        help: ArgumentHelp(
            "The credential that http, https and s3 sources need, by its name in the workers' --credentials.",
            valueName: "name"
        )
    )
    var credential: String?

    @Option(name: .long, help: "The batch's share beside other batches, 1 to 100.")
    var weight = 1

    @Flag(name: .long, help: "Do what has the same source, renditions and output only once.")
    var deduplicate = false

    @Option(
        name: .long,
        help: ArgumentHelp("Where the ledger goes: a JSON line for each job.", valueName: "file.jsonl")
    )
    var ledger: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "The longest time for all of it. Then run cancels the rest, and submit --wait stops waiting; the exit code is 75.",
            valueName: "seconds"
        )
    )
    var timeout: Double?

    @Flag(name: .long, help: "End with one JSON object on standard output.")
    var json = false

    mutating func validate() throws {
        if inputs.isEmpty && retryFailed == nil { throw ValidationError("Name at least one input.") }
        if !(1...100).contains(attempts) { throw ValidationError("--attempts is 1 to 100.") }
        if let credential, !Job.isName(credential) {
            throw ValidationError("--credential is a name of 1 to 128 letters, digits and . : - _")
        }
        if let timeout, !(timeout >= 0 && timeout < 1e9) { throw ValidationError("--timeout is a number of seconds.") }
        if !(1...BatchPolicy.maximumWeight).contains(weight) {
            throw ValidationError("--weight is 1 to \(BatchPolicy.maximumWeight).")
        }
        if Job.Priority(rawValue: priority) == nil {
            throw ValidationError("--priority is high, normal or bulk, not \"\(priority)\".")
        }
        if inputs.contains("") { throw ValidationError("An input is empty; it names a file, a directory or a URL.") }
        for (option, path) in [("--ledger", ledger), ("--retry-failed", retryFailed)] where path?.isEmpty == true {
            throw ValidationError("\(option) is empty; it names a file.")
        }
        // Beside inputs they are for these.
        if inputs.isEmpty, retryFailed != nil, let option = renditions.given {
            throw ValidationError(
                "\(option) does not go with --retry-failed alone: what failed is done again as it was asked for then. For other "
                    + "renditions name the inputs."
            )
        }
        if inputs.filter({ $0 == "-" }).count > 1 { throw ValidationError("Standard input can be read once only.") }
    }

    /// - Throws: `ValidationError` where --output would change nothing: each job of a ledger says where its outputs go.
    func refuseOutputOfRetry() throws {
        if inputs.isEmpty, retryFailed != nil {
            throw ValidationError(
                "--output does not go with --retry-failed alone: outputs go where they were to go then."
            )
        }
    }

    /// Looks for what is missing before anything is begun.
    ///
    /// - Throws: `Failure`.
    func check() throws {
        try InputReader.check(inputs + (retryFailed.map { [$0] } ?? []))
        if let retryFailed { try RetryLedger(path: retryFailed).check() }
        if let ledger { try checkLedger(ledger) }
    }

    /// - Throws: `Failure` where the ledger would overwrite what is to be read.
    func checkLedger(_ path: String) throws {
        for input in inputs + (retryFailed.map { [$0] } ?? []) where RetryLedger.isSame(input, path) {
            throw Failure.usage("the ledger would overwrite the input \(input). Name another file with --ledger.")
        }
    }

    /// What is asked of the batch.
    func policy(keepsLedger: Bool) -> BatchPolicy {
        BatchPolicy(keepsLedger: keepsLedger, deduplicates: deduplicate, weight: weight)
    }

    /// Turns inputs into jobs.
    func jobMaker(batch: String, output: String?) throws -> JobMaker {
        JobMaker(
            batch: batch,
            renditions: try renditions.renditions(),
            output: output,
            attempts: attempts,
            priority: Job.Priority(rawValue: priority) ?? .normal,
            credential: credential
        )
    }
}
