import ArgumentParser
import MegatonCluster
import MegatonPipeline

/// Renditions of each image. `--size` combines with the other options, and `--rendition` starts from them.
struct RenditionOptions: ParsableArguments {
    @Option(
        name: .long,
        help: ArgumentHelp(
            "Fit within WxH pixels: 640x480, or 256 for 256x256, 640x for a width alone, x480 for a height alone; "
                + "repeatable. 256x256 by default.",
            valueName: "WxH"
        )
    )
    var size: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp(
            "name=small,width=256,height=256,fit=cover,format=webp,quality=75,background=#ffffff; repeatable. The other "
                + "fields are those of the options: gravity, focus=0.5:0.3, dpr, enlarge=true, progressive, effort, "
                + "lossless, animated, keepMetadata, profile, qualityProfile, failOn.",
            valueName: "fields"
        )
    )
    var rendition: [String] = []

    @Option(
        name: .long,
        help: "jpeg by default, png, webp, avif, gif or jxl, which workers only write with --allow-type jxl."
    )
    var format: String?

    @Option(name: .long, help: "1 to 100; 80 by default.")
    var quality: Int?

    @Option(name: .long, help: "How it fits: inside by default, cover, contain, fill or outside.")
    var fit: String?

    @Option(
        name: .long,
        help:
            "What stays where cover cuts: centre by default, north, northeast, east, …, northwest, attention or entropy."
    )
    var gravity: String?

    @Option(
        name: .long,
        help: ArgumentHelp("What stays in the middle where cover cuts, 0 to 1 from the left top.", valueName: "X,Y")
    )
    var focus: String?

    @Option(name: .long, help: "Pixels of the screen for one of the page, 1 to 4: multiplies the sizes; 1 by default.")
    var dpr: Double?

    @Flag(name: .long, help: "Enlarge what is too small.")
    var enlarge = false

    @Flag(name: .long, help: "JPEG with several scans, or interlaced PNG.")
    var progressive = false

    @Option(
        name: .long,
        help: "How hard the encoder tries: png and avif 0 to 9, webp 0 to 6, gif 1 to 10, jxl 3 to 9."
    )
    var effort: Int?

    @Flag(name: .long, help: "WebP and JPEG XL without loss.")
    var lossless = false

    @Flag(name: .long, help: "Keep the frames of animations: gif and webp.")
    var animated = false

    @Option(name: .customLong("keep-metadata"), help: "none by default, or copyright: EXIF's Copyright and Artist.")
    var keepMetadata: String?

    @Option(name: .long, help: "srgb by default, or keep: the source's own colours and profile.")
    var profile: String?

    @Option(
        name: .customLong("quality-profile"),
        help: ArgumentHelp(
            "How much larger than the result a JPEG or WebP is at the least when it has been decoded: fast is 1, balanced 2, "
                + "faithful all of it; balanced by default.",
            valueName: "fast|balanced|faithful"
        )
    )
    var qualityProfile: String?

    @Option(
        name: .customLong("fail-on"),
        help: ArgumentHelp(
            "Which damage of a source is an error: none, truncated (data that ends early), error (data that cannot be right, "
                + "too) or warning; what the worker says unless given, which is truncated. What is rendered in spite of "
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
            if let complaint = rendition.complaint { throw ValidationError("\(rendition.name): \(complaint).") }
        }
        if quality != nil, let lossless = all.first, !all.contains(where: { $0.format.hasQuality }) {
            throw ValidationError("\(lossless.format.rawValue) has no --quality.")
        }
        var names: Set<String> = []
        for rendition in all where !names.insert(rendition.name).inserted {
            throw ValidationError("Two renditions share the name \(rendition.name).")
        }
        if all.count > Job.maximumRenditions {
            throw ValidationError("At most \(Job.maximumRenditions) renditions are made of an image.")
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
            throw ValidationError("--size looks like 256x256, 256, 256x or x256, not \"\(text)\".")
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
                throw ValidationError("--rendition is a list of field=value, not \"\(part)\".")
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
