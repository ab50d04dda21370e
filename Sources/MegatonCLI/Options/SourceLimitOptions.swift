import ArgumentParser
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Limits of sources and their renders. The defaults are those of the library.
struct SourceLimitOptions: ParsableArguments {
    @Option(
        name: .customLong("max-pixels"),
        help: ArgumentHelp(
            "Fail sources with more megapixels than this, over all frames that are read; 0.001 to 10000. A phone's "
                + "image of 108 megapixels needs 120.",
            valueName: "megapixels"
        )
    )
    var maxPixels = Self.megapixels(RenderLimits().pixels)

    @Option(
        name: .customLong("max-side"),
        help: ArgumentHelp("Fail sources whose longer side has more pixels than this.", valueName: "pixels")
    )
    var maxSide = RenderLimits().side

    @Option(
        name: .customLong("max-source-bytes"),
        help: ArgumentHelp(
            "Fail sources with more bytes than this, fetched or read from a file. The shared cache stores entries of "
                + "at most 32 MiB.",
            valueName: "mib"
        )
    )
    var maxBytes = ImagePipeline.Configuration.defaultMaximumDataSize >> 20

    @Option(
        name: .customLong("max-frames"),
        help: ArgumentHelp("Fail sources with more frames than this, if the animation is kept.", valueName: "number")
    )
    var maxFrames = RenderLimits().frames

    @Option(
        name: .customLong("max-seconds"),
        help: ArgumentHelp(
            "Time limit of rendering one source. A worker ends itself if a codec ignores it for three times as long.",
            valueName: "seconds"
        )
    )
    var maxSeconds = RenderLimits().time.inSeconds

    mutating func validate() throws {
        try OptionRange.check("--max-pixels", maxPixels, 0.001...10_000, " megapixels")
        try OptionRange.check("--max-side", maxSide, 1...1_000_000, " pixels")
        try OptionRange.check("--max-source-bytes", maxBytes, 1...2_047, " MiB")
        try OptionRange.check("--max-frames", maxFrames, 1...100_000)
        try OptionRange.check("--max-seconds", maxSeconds, 1...3_600, " seconds")
    }

    /// The options in the place of the library's settings, as `Worker.Configuration.optionNames` has them.
    static let optionNames = [
        "RenderLimits.pixels": "--max-pixels", "RenderLimits.side": "--max-side",
        "RenderLimits.frames": "--max-frames", "RenderLimits.time": "--max-seconds",
        "DataLoader.Configuration.maximumBodySize": "--max-source-bytes, in MiB",
        "ImagePipeline.Configuration.maximumDataSize": "--max-source-bytes, in MiB",
    ]

    func apply(to configuration: inout Worker.Configuration) {
        configuration.renderLimits.pixels = Int((maxPixels * 1_000_000).rounded())
        configuration.renderLimits.side = maxSide
        configuration.renderLimits.frames = maxFrames
        configuration.renderLimits.time = .seconds(maxSeconds)
        configuration.maximumDataSize = maxBytes << 20
    }

    /// Names of the options that are not at their default.
    func names(beside usual: Self) -> [String] {
        let options: [(name: String, isGiven: Bool)] = [
            ("--max-pixels", maxPixels != usual.maxPixels), ("--max-side", maxSide != usual.maxSide),
            ("--max-source-bytes", maxBytes != usual.maxBytes), ("--max-frames", maxFrames != usual.maxFrames),
            ("--max-seconds", maxSeconds != usual.maxSeconds),
        ]
        return options.filter(\.isGiven).map(\.name)
    }

    /// The same options for the workers of a run.
    var arguments: [String] {
        [
            "--max-pixels", String(maxPixels), "--max-side", String(maxSide), "--max-source-bytes", String(maxBytes),
            "--max-frames", String(maxFrames), "--max-seconds", String(maxSeconds),
        ]
    }

    private static func megapixels(_ pixels: Int) -> Double { Double(pixels) / 1_000_000 }
}
