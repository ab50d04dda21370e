extension RenditionOption {
    /// Options that change pixels after they have been decoded, in the order in which they are applied.
    static let effects: [RenditionOption] = [
        RenditionOption(
            "trim",
            get: { $0.trim },
            set: { $0.trim = $1 },
            .switched(
                Rendition.usualTolerance,
                Rendition.tolerances,
                allowed: "are true, false and whole numbers from 0 to 255"
            ),
            valueName: "true|N",
            help:
                "Remove borders of the color of the top left pixel, before anything else. A number is the tolerance, 0 "
                + "to 255; true is \(Rendition.usualTolerance)."
        ),
        RenditionOption(
            "rotate",
            optional: { $0.rotate },
            set: { $0.rotate = $1 },
            .word,
            valueName: "90|180|270",
            help:
                "Rotate clockwise by 90, 180 or 270 degrees, after the EXIF orientation and before the size is applied."
        ),
        RenditionOption(
            "flip",
            optional: { $0.flip },
            set: { $0.flip = $1 },
            .word,
            valueName: "horizontal|vertical|both",
            help: "Mirror after the rotation: horizontal (swaps left and right), vertical or both."
        ),
        RenditionOption(
            "flatten",
            get: { $0.flatten },
            set: { $0.flatten = $1 },
            .flag,
            help: "Fill transparent pixels with the background in formats with transparency too."
        ),
        RenditionOption(
            "blur",
            optional: { $0.blur },
            set: { $0.blur = $1 },
            .number(Rendition.blurs, allowed: "are numbers from 0.3 to 100"),
            help: "Gaussian blur; the sigma in pixels of the result, 0.3 to 100."
        ),
        RenditionOption(
            "sharpen",
            get: { $0.sharpen },
            set: { $0.sharpen = $1 },
            .switched(
                Rendition.mildSharpening,
                Rendition.sharpenings,
                allowed: "are true, false and numbers from 0.1 to 10"
            ),
            valueName: "true|N",
            help:
                "Sharpen. A number is the sigma in pixels of the result, 0.1 to 10; true is "
                + "\(Rendition.mildSharpening), which is mild."
        ),
        RenditionOption(
            "grayscale",
            get: { $0.grayscale },
            set: { $0.grayscale = $1 },
            .flag,
            help: "Remove colors."
        ),
        RenditionOption(
            "padding",
            optional: { $0.padding },
            set: { $0.padding = $1 },
            .padding,
            valueName: "N|T,R,B,L",
            help:
                "Pixels of the background around the result, outside of its size: on each side, or top, right, bottom "
                + "and left."
        ),
        RenditionOption(
            "watermark",
            optional: { $0.watermark },
            set: { $0.watermark = $1 },
            .watermark,
            valueName: "TEXT|JSON",
            help:
                "Draw a text, or a JSON object with text, or with image: the name of a file in --watermarks of the "
                + "worker. Its other fields are position (southeast by default, or repeat), opacity (0 to 1), scale "
                + "(fraction of the width, 0.01 to 1), margin (pixels), and x and y (shift from the place in pixels, "
                + "or below 1 in fractions of the side)."
        ),
        RenditionOption(
            "maxBytes",
            optional: { $0.maxBytes },
            set: { $0.maxBytes = $1 },
            .whole(1...EncodedSize.maximum, " from 1 to \(EncodedSize.maximum), bytes"),
            encoding: Encoding(
                formats: Rendition.Format.allCases.filter(\.hasQuality),
                problem: { rendition in
                    guard let bytes = rendition.maxBytes else { return nil }
                    if !(1...EncodedSize.maximum).contains(bytes) {
                        return "is \(bytes); allowed are 1 to \(EncodedSize.maximum) bytes"
                    }
                    return rendition.lossless ? "and lossless exclude each other: there is no quality to lower" : nil
                }
            ),
            help:
                "Lower the quality, at most to \(EncodedSize.lowestQuality), until the encoded image has at most this "
                + "number of bytes: jpeg, webp, avif and jxl."
        ),
        RenditionOption(
            "targetScore",
            optional: { $0.targetScore },
            set: { $0.targetScore = $1 },
            .number(TargetScore.range, allowed: "are numbers from 10 to 100"),
            encoding: Encoding(
                formats: Rendition.Format.allCases.filter(\.hasQuality),
                problem: { rendition in
                    guard let score = rendition.targetScore else { return nil }
                    if !TargetScore.range.contains(score) { return "is \(score); allowed are numbers from 10 to 100" }
                    if rendition.animated { return "and animated exclude each other: one frame would stand for all" }
                    return rendition.lossless ? "and lossless exclude each other: there is no quality to choose" : nil
                }
            ),
            help:
                "Choose the lowest quality whose image has this SSIMULACRA2 score beside its pixels, 10 to 100: 90 is "
                + "a difference that is hardly visible, 70 high quality. The score is in the ledger. Encoding takes "
                + "many times as long: jpeg, webp, avif and jxl."
        ),
    ]
}
