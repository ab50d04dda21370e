import ArgumentParser
import MegatonCluster
import MegatonPipeline

/// What is made of each image.
struct RenditionOptions: ParsableArguments {
    @Option(
        name: .long,
        help: ArgumentHelp("Fit within WxH pixels; repeatable. 256x256 by default.", valueName: "WxH")
    )
    var size: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp(
            "name=small,width=256,height=256,fit=cover,format=webp,quality=75,background=#ffffff; repeatable. "
                + "fit: inside, cover, contain, fill, outside.",
            valueName: "fields"
        )
    )
    var rendition: [String] = []

    @Option(name: .long, help: "Format of --size: jpeg, png, webp or avif.")
    var format = "jpeg"

    @Option(name: .long, help: "Quality of --size, 1 to 100.")
    var quality = 80

    mutating func validate() throws { _ = try renditions() }

    /// - Throws: `ValidationError` with what is wrong with which option.
    func renditions() throws -> [Rendition] {
        guard let format = Rendition.Format(rawValue: format) else {
            throw ValidationError("--format is jpeg, png, webp or avif, not \"\(self.format)\".")
        }
        let sizes = size.isEmpty && rendition.isEmpty ? ["256x256"] : size
        var all: [Rendition] = []
        for text in sizes {
            let sides = text.lowercased().split(separator: "x", omittingEmptySubsequences: false)
            guard sides.count == 2, let width = Int(sides[0]), let height = Int(sides[1]) else {
                throw ValidationError("--size looks like 256x256, not \"\(text)\".")
            }
            all.append(Rendition(width: width, height: height, format: format, quality: quality))
        }
        all += try rendition.map { try Self.parse($0, format: format, quality: quality) }
        for rendition in all {
            if let complaint = rendition.complaint { throw ValidationError("\(rendition.name): \(complaint).") }
        }
        if Set(all.map(\.name)).count < all.count { throw ValidationError("Two renditions share a name.") }
        if all.count > Job.maximumRenditions {
            throw ValidationError("At most \(Job.maximumRenditions) renditions are made of an image.")
        }
        return all
    }

    private static func parse(_ text: String, format: Rendition.Format, quality: Int) throws -> Rendition {
        var rendition = Rendition(format: format, quality: quality)
        var name: String?
        for part in text.split(separator: ",") {
            let pair = part.split(separator: "=", maxSplits: 1).map(String.init)
            guard pair.count == 2 else {
                throw ValidationError("--rendition is a list of field=value, not \"\(part)\".")
            }
            func number() throws -> Int {
                guard let number = Int(pair[1]) else {
                    throw ValidationError("--rendition: \(pair[0]) is a number, not \"\(pair[1])\".")
                }
                return number
            }
            switch pair[0] {
            case "name": name = pair[1]
            case "width": rendition.width = try number()
            case "height": rendition.height = try number()
            case "quality": rendition.quality = try number()
            case "fit": rendition.fit = try choice(pair)
            case "format": rendition.format = try choice(pair)
            case "background":
                guard let color = Color(hex: pair[1]) else {
                    throw ValidationError("--rendition: background looks like #ffffff, not \"\(pair[1])\".")
                }
                rendition.background = color
            default:
                throw ValidationError(
                    "--rendition has no field \"\(pair[0])\"; it has name, width, height, fit, format, quality and "
                        + "background."
                )
            }
        }
        rendition.name =
            name ?? "\(rendition.width.map(String.init) ?? "")x\(rendition.height.map(String.init) ?? "")"
        return rendition
    }

    private static func choice<Value: RawRepresentable & CaseIterable>(_ pair: [String]) throws -> Value
    where Value.RawValue == String {
        guard let value = Value(rawValue: pair[1]) else {
            let known = Value.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("--rendition: \(pair[0]) is one of \(known), not \"\(pair[1])\".")
        }
        return value
    }
}
