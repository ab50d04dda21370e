extension RenditionOption {
    /// All options, in the order in which messages list them.
    package static let all = basics + effects

    /// Name, size and encoding, and the choice of the part that is shown.
    private static let basics: [RenditionOption] = [
        RenditionOption(
            "name",
            get: { $0.name },
            set: { $0.name = $1 },
            .text(pattern: "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$", allowed: Rendition.allowedNames),
            isAlwaysWritten: true,
            identity: .position,
            hasFlag: false,
            help: "Part of output names; WIDTHxHEIGHT by default."
        ),
        RenditionOption(
            "width",
            optional: { $0.width },
            set: { $0.width = $1 },
            .whole(1...Rendition.maximumSide, " from 1 to \(Rendition.maximumSide), pixels"),
            identity: .position,
            hasFlag: false,
            help: "Pixels; by default in proportion to the height."
        ),
        RenditionOption(
            "height",
            optional: { $0.height },
            set: { $0.height = $1 },
            .whole(1...Rendition.maximumSide, " from 1 to \(Rendition.maximumSide), pixels"),
            identity: .position,
            hasFlag: false,
            help: "Pixels; by default in proportion to the width."
        ),
        RenditionOption(
            "fit",
            get: { $0.fit },
            set: { $0.fit = $1 },
            .word,
            isAlwaysWritten: true,
            identity: .position,
            help:
                "How the image meets the size: inside (default), cover, contain, fill, outside, or auto (cover if "
                + "source and size are both wide or both high, else inside)."
        ),
        RenditionOption(
            "format",
            get: { $0.format },
            set: { $0.format = $1 },
            .word,
            isAlwaysWritten: true,
            identity: .position,
            help:
                "Output format: jpeg (default), png, webp, avif, gif, or jxl, which needs workers with "
                + "--allow-type jxl."
        ),
        RenditionOption(
            "quality",
            get: { $0.quality },
            set: { $0.quality = $1 },
            .whole(1...100, " from 1 to 100"),
            isAlwaysWritten: true,
            identity: .position,
            encoding: Encoding(
                problem: { (1...100).contains($0.quality) ? nil : "is \($0.quality); allowed are 1 to 100" },
                argument: { $0.format.hasQuality ? "Q=\($0.quality)" : nil }
            ),
            help: "Quality of the encoder, 1 to 100; 80 by default."
        ),
        RenditionOption(
            "background",
            get: { $0.background },
            set: { $0.background = $1 },
            .color,
            identity: .position,
            valueName: "COLOR",
            help: "Color behind transparent pixels, of the bars of contain and of padding; #ffffff by default."
        ),
        RenditionOption(
            "gravity",
            get: { $0.gravity },
            set: { $0.gravity = $1 },
            .word,
            help:
                "The part that cover keeps: center (default), north, northeast, east, …, northwest, attention or "
                + "entropy."
        ),
        RenditionOption(
            "focus",
            optional: { $0.focus },
            set: { $0.focus = $1 },
            .point,
            valueName: "X,Y",
            help: "Center of the part that cover keeps, 0 to 1 from the top left; replaces --gravity."
        ),
        RenditionOption(
            "dpr",
            get: { $0.dpr },
            set: { $0.dpr = $1 },
            .number(1...4, allowed: "are numbers from 1 to 4"),
            help: "Device pixel ratio, 1 to 4: multiplies the sizes; 1 by default."
        ),
        RenditionOption(
            "enlarge",
            get: { $0.enlarge },
            set: { $0.enlarge = $1 },
            .flag,
            help: "Enlarge sources that are smaller than the size."
        ),
        RenditionOption(
            "progressive",
            get: { $0.progressive },
            set: { $0.progressive = $1 },
            .flag,
            encoding: Encoding(
                formats: Rendition.Format.allCases.filter(\.hasProgressive),
                argument: { $0.progressive ? "interlace=true" : nil }
            ),
            help: "Write JPEGs with several scans, or interlaced PNGs."
        ),
        RenditionOption(
            "effort",
            optional: { $0.effort },
            set: { $0.effort = $1 },
            .whole(0...10),
            identity: .custom { rendition in
                guard let effort = rendition.effort, effort != rendition.format.defaultEffort else { return nil }
                return "effort=\(effort)"
            },
            encoding: Encoding(
                problem: { rendition in
                    guard let effort = rendition.effort else { return nil }
                    let format = rendition.format.rawValue
                    guard let efforts = rendition.format.efforts else { return "is \(effort); \(format) has no effort" }
                    if efforts.contains(effort) { return nil }
                    return "is \(effort); allowed are \(efforts.lowerBound) to \(efforts.upperBound) for \(format)"
                },
                argument: { rendition in
                    guard rendition.format.efforts != nil else { return nil }
                    let argument = rendition.format == .png ? "compression" : "effort"
                    return "\(argument)=\(rendition.effort ?? rendition.format.defaultEffort)"
                }
            ),
            help: "Encoder effort: png and avif 0 to 9, webp 0 to 6, gif 1 to 10, jxl 3 to 9."
        ),
        RenditionOption(
            "lossless",
            get: { $0.lossless },
            set: { $0.lossless = $1 },
            .flag,
            encoding: Encoding(
                formats: Rendition.Format.allCases.filter(\.hasLossless),
                argument: { $0.lossless ? "lossless=true" : nil }
            ),
            help: "Write WebP and JPEG XL without loss."
        ),
        RenditionOption(
            "chroma",
            optional: { $0.chroma },
            set: { $0.chroma = $1 },
            .word,
            encoding: Encoding(
                formats: Rendition.Format.allCases.filter(\.hasChroma),
                argument: { $0.chroma.map { "subsample-mode=\($0 == .s420 ? "on" : "off")" } }
            ),
            valueName: "420|444",
            help: "Chroma subsampling: jpeg and avif. By default 444 from quality 90 on, and 420 below."
        ),
        RenditionOption(
            "animated",
            get: { $0.animated },
            set: { $0.animated = $1 },
            .flag,
            encoding: Encoding(formats: Rendition.Format.allCases.filter(\.hasFrames)),
            help: "Keep all frames of animations: gif and webp."
        ),
        RenditionOption(
            "keepMetadata",
            get: { $0.keepMetadata },
            set: { $0.keepMetadata = $1 },
            .word,
            identity: .field("metadata"),
            encoding: Encoding(problem: { rendition in
                if rendition.keepMetadata == .none || rendition.format.hasMetadata { return nil }
                return "is \(rendition.keepMetadata.rawValue); \(rendition.format.rawValue) has no metadata to keep"
            }),
            help: "Metadata to keep: none (default), or copyright, the Copyright and Artist fields of EXIF."
        ),
        RenditionOption(
            "profile",
            get: { $0.profile },
            set: { $0.profile = $1 },
            .word,
            encoding: Encoding(problem: { rendition in
                if rendition.profile == .srgb || rendition.format.hasProfile { return nil }
                return "is \(rendition.profile.rawValue); \(rendition.format.rawValue) has no color profiles"
            }),
            help: "srgb (default), or keep for the colors and the ICC profile of the source."
        ),
        RenditionOption(
            "qualityProfile",
            get: { $0.qualityProfile },
            set: { $0.qualityProfile = $1 },
            .word,
            valueName: "fast|balanced|faithful",
            help:
                "Minimum size at which a JPEG or WebP is decoded, as a multiple of the result: fast is 1, balanced "
                + "(default) 2, faithful the full size."
        ),
        RenditionOption(
            "linear",
            get: { $0.linear },
            set: { $0.linear = $1 },
            .flag,
            help:
                "Scale in linear light, which keeps the brightness of fine details, in several times the time; not "
                + "with profile keep."
        ),
        RenditionOption(
            "failOn",
            optional: { $0.failOn },
            set: { $0.failOn = $1 },
            .word,
            identity: .custom { rendition in
                let level = rendition.toleratedDamage
                return level == .truncated ? nil : "failOn=\(level.rawValue)"
            },
            valueName: "none|truncated|error|warning",
            help:
                "Damage of a source that is an error: none, truncated (data that ends early), error (also invalid "
                + "data) or warning. By default the setting of the worker, truncated. A rendition that is made in "
                + "spite of damage has a note in the ledger."
        ),
    ]

    /// Fields of the JSON.
    package static let names = all.map(\.name)

    /// Options in the order of `Rendition.identity`: those of encoders come last.
    static let identifying =
        all.filter { $0.encoding == nil && $0.identity != nil } + encoding.filter { $0.identity != nil }

    /// Options of encoders.
    static let encoding = all.filter { $0.encoding != nil }
}
