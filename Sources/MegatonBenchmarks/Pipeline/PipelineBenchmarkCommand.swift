import ArgumentParser
import Foundation
import MegatonCommandLine
import MegatonPipeline

/// `megaton-bench pipeline`
struct PipelineBenchmarkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pipeline",
        abstract: "Measure rendering alone: your own images, from memory to memory.",
        discussion: """
            Each image is first rendered once; an image that cannot be rendered is reported and left out. Then the \
            stages run one after the other, with the pixels in memory between them, and at last, for each format, the \
            bare loop: the whole render of a job with one rendition, without fetching, caches, lock, queue and output.
            """
    )

    @Argument(help: "Images, directories, or lists of them (.txt).")
    var inputs: [String] = []

    @Option(name: .long, help: "Fit within N x N pixels.")
    var size = 256

    @Option(name: .long, help: "Output formats, separated by commas: jpeg, png, webp, avif, gif.")
    var format = "jpeg,webp"

    @Option(name: .long, help: "Seconds for the stages, and for the loop of each format.")
    var seconds = 5

    @Option(name: .long, help: "Number of render threads; the number of processors by default.")
    var threads: Int?

    @Option(name: .long, help: "Renderer: auto, vips or planes.")
    var engine = RenderEngineChoice.auto.rawValue

    @Option(
        name: .customLong("quality-profile"),
        help: "How far the decoder may shrink the image: fast, balanced or faithful."
    )
    var qualityProfile = Rendition.QualityProfile.balanced.rawValue

    @Flag(name: .long, help: "Print one JSON object instead of the table.")
    var json = false

    mutating func validate() throws {
        if inputs.isEmpty { throw ValidationError("Name at least one image or directory.") }
        if inputs.contains("-") { throw ValidationError("Standard input is not read; name files.") }
        try OptionRange.check("--size", size, 1...Rendition.maximumSide)
        try OptionRange.check("--seconds", seconds, 1...600)
        try OptionRange.check("--threads", threads, 1...256)
        _ = try formats()
        _ = try choices()
    }

    private func choices() throws -> (RenderEngineChoice, Rendition.QualityProfile) {
        guard let engine = RenderEngineChoice(rawValue: engine) else {
            throw ValidationError("--engine must be auto, vips or planes, not \"\(engine)\".")
        }
        guard let profile = Rendition.QualityProfile(rawValue: qualityProfile) else {
            throw ValidationError("--quality-profile must be fast, balanced or faithful, not \"\(qualityProfile)\".")
        }
        return (engine, profile)
    }

    private func formats() throws -> [Rendition.Format] {
        let formats = try format.split(separator: ",").map { name in
            guard let format = Rendition.Format(rawValue: String(name)), format != .jxl else {
                throw ValidationError("--format must be a list of jpeg, png, webp, avif and gif, not \"\(name)\".")
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
            if json { try Terminal.output(JSONText.pretty(report)) } else { try Terminal.output(report.text) }
        }
    }
}
