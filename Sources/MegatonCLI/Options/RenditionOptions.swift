import ArgumentParser
import MegatonCluster
import MegatonPipeline

/// Renditions of each image. `--size` combines with the other options, and `--rendition` starts from them.
struct RenditionOptions: ParsableArguments {
    @Option(
        name: .long,
        help: ArgumentHelp(
            "Fit within WxH pixels: 640x480, 256 for 256x256, 640x for a width alone, x480 for a height alone. "
                + "Repeatable; 256x256 by default.",
            valueName: "WxH"
        )
    )
    var size: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp(
            "name=small,width=256,height=256,fit=cover,format=webp,quality=75,background=#ffffff. Repeatable. Other "
                + "fields have the names of the options: gravity, focus=0.5:0.3, dpr, enlarge=true, progressive, "
                + "effort, lossless, animated, keepMetadata, profile, qualityProfile, failOn.",
            valueName: "fields"
        )
    )
    var rendition: [String] = []

    @Option(
        name: .long,
        help: "Output format: jpeg (default), png, webp, avif, gif, or jxl, which needs workers with --allow-type jxl."
    )
    var format: String?

    @Option(name: .long, help: "Quality of the encoder, 1 to 100; 80 by default.")
    var quality: Int?

    @Option(name: .long, help: "How the image meets the size: inside (default), cover, contain, fill or outside.")
    var fit: String?

    @Option(
        name: .long,
        help:
            "The part that cover keeps: center (default), north, northeast, east, …, northwest, attention or entropy."
    )
    var gravity: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Center of the part that cover keeps, 0 to 1 from the top left; replaces --gravity.",
            valueName: "X,Y"
        )
    )
    var focus: String?

    @Option(name: .long, help: "Device pixel ratio, 1 to 4: multiplies the sizes; 1 by default.")
    var dpr: Double?

    @Flag(name: .long, help: "Enlarge sources that are smaller than the size.")
    var enlarge = false

    @Flag(name: .long, help: "Write JPEGs with several scans, or interlaced PNGs.")
    var progressive = false

    @Option(
        name: .long,
        help: "Encoder effort: png and avif 0 to 9, webp 0 to 6, gif 1 to 10, jxl 3 to 9."
    )
    var effort: Int?

    @Flag(name: .long, help: "Write WebP and JPEG XL without loss.")
    var lossless = false

    @Flag(name: .long, help: "Keep all frames of animations: gif and webp.")
    var animated = false

    @Option(
        name: .customLong("keep-metadata"),
        help: "Metadata to keep: none (default), or copyright, the Copyright and Artist fields of EXIF."
    )
    var keepMetadata: String?

    @Option(name: .long, help: "srgb (default), or keep for the colors and the ICC profile of the source.")
    var profile: String?

    @Option(
        name: .customLong("quality-profile"),
        help: ArgumentHelp(
            "Minimum size at which a JPEG or WebP is decoded, as a multiple of the result: fast is 1, balanced "
                + "(default) 2, faithful the full size.",
            valueName: "fast|balanced|faithful"
        )
    )
    var qualityProfile: String?

    @Option(
        name: .customLong("fail-on"),
        help: ArgumentHelp(
            "Damage of a source that is an error: none, truncated (data that ends early), error (also invalid data) "
                + "or warning. By default the setting of the worker, truncated. A rendition that is made in spite of "
                + "damage has a note in the ledger.",
            valueName: "none|truncated|error|warning"
        )
    )
    var failOn: String?

    mutating func validate() throws { _ = try renditions() }

    /// - Throws: `ValidationError` that names the option and its fault.
    func renditions() throws -> [Rendition] {
        let template = try template()
        var all = try (size.isEmpty && rendition.isEmpty ? ["256x256"] : size).map { try Self.sized($0, template) }
        all += try rendition.map { try Self.parse($0, template) }
        for rendition in all {
            if let error = rendition.complaint { throw ValidationError("\(rendition.name): \(error).") }
        }
        if quality != nil, let lossless = all.first, !all.contains(where: { $0.format.hasQuality }) {
            throw ValidationError("\(lossless.format.rawValue) has no --quality.")
        }
        var names: Set<String> = []
        for rendition in all where !names.insert(rendition.name).inserted {
            throw ValidationError("Two renditions share the name \(rendition.name).")
        }
        if all.count > Job.maximumRenditions {
            throw ValidationError("An image can have at most \(Job.maximumRenditions) renditions.")
        }
        return all
    }

    /// All fields but name and size.
    private func template() throws -> Rendition {
        let rendition = Rendition(
            quality: quality ?? 80,
            dpr: dpr ?? 1,
            enlarge: enlarge,
            progressive: progressive,
            effort: effort,
            lossless: lossless,
            animated: animated
        )
        return try texts.reduce(rendition) { rendition, text in
            guard let value = text.value else { return rendition }
            var fields = RenditionFields(rendition, of: text.option)
            try fields.set(text.field, to: value)
            return fields.rendition
        }
    }

    /// Options with a word as their value, and the fields that they set.
    private var texts: [(option: String, field: String, value: String?)] {
        [
            ("--format", "format", format), ("--fit", "fit", fit), ("--gravity", "gravity", gravity),
            ("--keep-metadata", "keepMetadata", keepMetadata), ("--profile", "profile", profile),
            ("--quality-profile", "qualityProfile", qualityProfile), ("--focus", "focus", focus),
            ("--fail-on", "failOn", failOn),
        ]
    }

    /// The first of the options that was given; nil if none was.
    var given: String? {
        let others = [
            ("--size", !size.isEmpty), ("--rendition", !rendition.isEmpty), ("--quality", quality != nil),
            ("--dpr", dpr != nil), ("--effort", effort != nil), ("--enlarge", enlarge),
            ("--progressive", progressive), ("--lossless", lossless), ("--animated", animated),
        ]
        return (others + texts.map { ($0.option, $0.value != nil) }).first { $0.1 }?.0
    }

    private static func sized(_ text: String, _ template: Rendition) throws -> Rendition {
        var sides = text.lowercased().split(separator: "x", omittingEmptySubsequences: false)
        if sides.count == 1 { sides.append(sides[0]) }
        let numbers = sides.map { Int($0) }
        // An empty side follows from the other one.
        guard sides.count == 2, zip(sides, numbers).allSatisfy({ $0.isEmpty || $1 != nil }), text.lowercased() != "x",
            !text.isEmpty
        else {
            throw ValidationError("--size must look like 256x256, 256, 256x or x256, not \"\(text)\".")
        }
        var rendition = template
        rendition.width = numbers[0]
        rendition.height = numbers[1]
        rendition.name = name(of: rendition)
        return rendition
    }

    private static func parse(_ text: String, _ template: Rendition) throws -> Rendition {
        var fields = RenditionFields(template, of: "--rendition")
        var given: Set<String> = []
        for part in text.split(separator: ",") {
            let pair = part.split(separator: "=", maxSplits: 1).map(String.init)
            guard pair.count == 2 else {
                throw ValidationError("--rendition must be a list of field=value, not \"\(part)\".")
            }
            guard given.insert(pair[0]).inserted else {
                throw ValidationError("--rendition \(text): \(pair[0]) is given twice.")
            }
            try fields.set(pair[0], to: pair[1])
        }
        var rendition = fields.rendition
        if given.contains("quality") && !rendition.format.hasQuality {
            throw ValidationError("--rendition \(text): \(rendition.format.rawValue) has no quality.")
        }
        if !given.contains("name") { rendition.name = name(of: rendition) }
        return rendition
    }

    /// `640x480`, `640x` or `x480`.
    private static func name(of rendition: Rendition) -> String {
        "\(rendition.width.map(String.init) ?? "")x\(rendition.height.map(String.init) ?? "")"
    }
}
