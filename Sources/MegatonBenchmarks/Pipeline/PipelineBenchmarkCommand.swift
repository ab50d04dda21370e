import ArgumentParser
import Foundation
import MegatonCommandLine
import MegatonPipeline

/// `megaton-bench pipeline`
struct PipelineBenchmarkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pipeline",
        abstract: "What the rendering alone can do: your own pictures, from memory to memory.",
        discussion: """
            Each picture is first rendered once; one that cannot be is told and left out. Then the stages are run one \
            after the other, with the pixels in memory between them, and at last, for each format, the bare loop: the \
            whole render of a job with one rendition, without fetching, caches, lock, queue and output.
            """
    )

    @Argument(help: "Pictures, directories, or lists of them (.txt).")
    var inputs: [String] = []

    @Option(name: .long, help: "Fit within N x N pixels.")
    var size = 256

    @Option(name: .long, help: "What is written, separated by commas: jpeg, png, webp, avif, gif.")
    var format = "jpeg,webp"

    @Option(name: .long, help: "Seconds for the stages, and for each format's loop.")
    var seconds = 5

    @Option(name: .long, help: "Threads that render; the number of processors by default.")
    var threads: Int?

    @Option(name: .long, help: "What renders: auto, vips or planes.")
    var engine = RenderEngineChoice.auto.rawValue

    @Option(name: .customLong("quality-profile"), help: "How far the decoder shrinks: fast, balanced or faithful.")
    var qualityProfile = Rendition.QualityProfile.balanced.rawValue

    @Flag(name: .long, help: "End with one JSON object on standard output.")
    var json = false

    mutating func validate() throws {
        if inputs.isEmpty { throw ValidationError("Name pictures, or directories of them.") }
        if inputs.contains("-") { throw ValidationError("Standard input is not read here; name files.") }
        try OptionRange.check("--size", size, 1...Rendition.maximumSide)
        try OptionRange.check("--seconds", seconds, 1...600)
        try OptionRange.check("--threads", threads, 1...256)
        _ = try formats()
        _ = try choices()
    }

    private func choices() throws -> (RenderEngineChoice, Rendition.QualityProfile) {
        guard let engine = RenderEngineChoice(rawValue: engine) else {
            throw ValidationError("--engine is auto, vips or planes, not \"\(engine)\".")
        }
        guard let profile = Rendition.QualityProfile(rawValue: qualityProfile) else {
            throw ValidationError("--quality-profile is fast, balanced or faithful, not \"\(qualityProfile)\".")
        }
        return (engine, profile)
    }

    private func formats() throws -> [Rendition.Format] {
        let formats = try format.split(separator: ",").map { name in
            guard let format = Rendition.Format(rawValue: String(name)), format != .jxl else {
                throw ValidationError("--format is a list of jpeg, png, webp, avif and gif, not \"\(name)\".")
            }
            return format
        }
        if formats.isEmpty { throw ValidationError("--format names no format.") }
        if Set(formats).count < formats.count { throw ValidationError("--format names a format twice.") }
        return formats
    }

    func run() async throws {
        try await reportingFailures {
            let (engine, profile) = try choices()
            let report = try await PipelineBenchmark(
                inputs: inputs,
                side: size,
                formats: formats(),
                engine: engine,
                profile: profile,
                time: .seconds(seconds),
                threads: threads ?? ProcessInfo.processInfo.activeProcessorCount
            ).run()
            if json { Terminal.output(try JSONText.pretty(report)) } else { Terminal.output(report.text) }
        }
    }
}
