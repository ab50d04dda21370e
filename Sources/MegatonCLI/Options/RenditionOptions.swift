import ArgumentParser
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonPipeline

/// Renditions of each image. `--size` combines with the flags of the other options, and `--rendition` starts from them.
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
                + "fields have the names of the options: \(Self.otherFields).",
            valueName: "fields"
        )
    )
    var rendition: [String] = []

    /// The flags that were given, and their values.
    private var values: [(flag: RenditionFlag, text: String)] = []

    init() {}

    init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: AnyCodingKey.self)
        _size = try fields.decode(Option<[String]>.self, forKey: AnyCodingKey("size"))
        _rendition = try fields.decode(Option<[String]>.self, forKey: AnyCodingKey("rendition"))
        values = try RenditionFlag.all.compactMap { flag in try flag.value(in: fields).map { (flag, $0) } }
    }

    mutating func validate() throws { _ = try renditions() }

    /// - Throws: `ValidationError` that names the option and its fault.
    func renditions() throws -> [Rendition] {
        let sizes = size.isEmpty && rendition.isEmpty ? ["256x256"] : size
        var all = try sizes.map { try made("--size", $0, Self.sized) }
        all += try rendition.map { try made("--rendition", $0, Self.parse) }
        if values.contains(where: { $0.flag.option.name == "quality" }), let lossless = all.first,
            !all.contains(where: { $0.format.hasQuality }), !OptionOrigins.isConfigured("--quality")
        {
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

    /// The rendition of an argument. `--format png` is typed, and a file has an option of JPEGs: values of variables
    /// and files that have no effect on the format are left out.
    private func made(
        _ argument: String,
        _ text: String,
        _ make: (String, Rendition) throws -> Rendition
    ) throws -> Rendition {
        let format = try make(text, try template(values)).format
        let useful = values.filter { $0.flag.option.applies(to: format) || !OptionOrigins.isConfigured($0.flag.name) }
        return try checked(try make(text, try template(useful)), argument, text)
    }

    /// Returns the rendition of an argument.
    ///
    /// - Throws: `ValidationError` with the option that has the invalid value: its own flag, or the argument.
    private func checked(_ rendition: Rendition, _ argument: String, _ text: String) throws -> Rendition {
        guard let problem = rendition.problem else { return rendition }
        let field = String(problem.path.prefix { $0 != "." })
        let isInArgument = Self.fields(of: text).contains { $0.hasPrefix("\(field)=") }
        if let flag = values.first(where: { $0.flag.option.name == field })?.flag.name, !isInArgument {
            let path = problem.path.dropFirst(field.count)
            throw ValidationError(FieldProblem.sentence("\(flag)\(path) \(problem.problem)"))
        }
        throw ValidationError(FieldProblem.sentence("\(argument) \(text): \(problem)"))
    }

    /// All fields but name and size.
    private func template(_ values: [(flag: RenditionFlag, text: String)]) throws -> Rendition {
        var rendition = Rendition()
        for (flag, text) in values { try Self.set(flag.option, of: flag.name, to: text, in: &rendition) }
        return rendition
    }

    /// Long names of all the options, without dashes.
    static let names: Set<String> = Set(["size", "rendition"] + RenditionFlag.all.map { String($0.name.dropFirst(2)) })

    /// The first of the options that was given; nil if none was.
    var given: String? {
        let lists = [("--size", size), ("--rendition", rendition)]
        return lists.first { !$0.1.isEmpty }?.0 ?? values.first?.flag.name
    }

    /// - Parameter argument: the command-line option that contains the text, for the message.
    private static func set(
        _ option: RenditionOption,
        of argument: String,
        to text: String,
        in rendition: inout Rendition
    ) throws {
        if option.name == "watermark" {
            try WatermarkCheck.refuseFields(argument, text)
            try WatermarkCheck.refuseFileName(argument, text)
        }
        do throws(RenditionOption.InvalidText) {
            try option.set(text, in: &rendition)
        } catch {
            throw ValidationError("\(argument): \(option.name) \(error.rule), not \"\(text)\".")
        }
    }

    /// Signs at the end of sizes of ImageMagick and vipsthumbnail.
    private static let geometryHints = [
        (sign: ">", hint: "No image is made larger unless --enlarge is given, so > is not needed."),
        (sign: "^", hint: "Give --fit outside, or --fit cover to crop as well, in the place of ^."),
        (sign: "!", hint: "Give --fit fill in the place of !."),
        (sign: "<", hint: "Give --enlarge in the place of <."),
    ]

    private static func sized(_ text: String, _ template: Rendition) throws -> Rendition {
        var sides = text.lowercased().split(separator: "x", omittingEmptySubsequences: false)
        if sides.count == 1 { sides.append(sides[0]) }
        let numbers = sides.map { Int($0) }
        // An empty side follows from the other one.
        guard sides.count == 2, zip(sides, numbers).allSatisfy({ $0.isEmpty || $1 != nil }), text.lowercased() != "x",
            !text.isEmpty
        else {
            let hint = geometryHints.first { text.hasSuffix($0.sign) }.map { " \($0.hint)" } ?? ""
            throw ValidationError("--size must look like 256x256, 256, 256x or x256, not \"\(text)\".\(hint)")
        }
        var rendition = template
        rendition.width = numbers[0]
        rendition.height = numbers[1]
        rendition.name = Rendition.defaultName(width: rendition.width, height: rendition.height)
        return rendition
    }

    private static func parse(_ text: String, _ template: Rendition) throws -> Rendition {
        var rendition = template
        var given: Set<String> = []
        for part in fields(of: text) {
            let pair = part.split(separator: "=", maxSplits: 1).map(String.init)
            guard pair.count == 2 else {
                throw ValidationError("--rendition must be a list of field=value, not \"\(part)\".")
            }
            guard given.insert(pair[0]).inserted else {
                throw ValidationError("--rendition \(text): \(pair[0]) is given twice.")
            }
            guard let option = RenditionOption.all.first(where: { $0.name == pair[0] }) else {
                let names = RenditionOption.names.joined(separator: ", ")
                let nearest = Spelling.nearest(to: pair[0], among: RenditionOption.names)
                let near = nearest.map { " Did you mean \($0)?" } ?? ""
                throw ValidationError("--rendition has no field \"\(pair[0])\"; its fields are \(names).\(near)")
            }
            try set(option, of: "--rendition", to: pair[1], in: &rendition)
        }
        if given.contains("quality") && !rendition.format.hasQuality {
            throw ValidationError("--rendition \(text): \(rendition.format.rawValue) has no quality.")
        }
        if !given.contains("name") {
            rendition.name = Rendition.defaultName(width: rendition.width, height: rendition.height)
        }
        return rendition
    }

    /// The parts of a `--rendition`. Commas within the JSON object of a watermark do not end a field.
    private static func fields(of text: String) -> [Substring] {
        var (depth, isQuoted, isEscaped) = (0, false, false)
        return text.split { character in
            if isEscaped {
                isEscaped = false
                return false
            }
            switch character {
            case "\\" where isQuoted: isEscaped = true
            case "\"" where depth > 0: isQuoted.toggle()
            case "{" where !isQuoted: depth += 1
            case "}" where !isQuoted: depth = max(0, depth - 1)
            case ",": return depth == 0
            default: break
            }
            return false
        }
    }

    /// The fields that are not in the example of `--rendition`.
    private static let otherFields = RenditionOption.all.drop { $0.name != "gravity" }.map(\.example)
        .joined(separator: ", ")
}

extension RenditionOptions: CustomReflectable {
    /// ArgumentParser finds the options of a type by reflection: the flags come from the table of ``RenditionOption``.
    var customMirror: Mirror {
        let own: [Mirror.Child] = [("_size", _size), ("_rendition", _rendition)]
        return Mirror(self, children: own + RenditionFlag.all.map { ("_\($0.option.name)", $0.definition) })
    }
}

/// An option of renditions as a flag of the command line, e.g. `--keep-metadata`.
private struct RenditionFlag {
    let option: RenditionOption

    /// In the order of the help: the most used ones first.
    static let all: [RenditionFlag] = {
        let flags = RenditionOption.all.filter(\.hasFlag)
        let first = flags.filter { ["format", "quality"].contains($0.name) }
        return (first + flags.filter { !["format", "quality"].contains($0.name) }).map(RenditionFlag.init)
    }()

    var name: String {
        "--" + option.name.map { $0.isUppercase ? "-\($0.lowercased())" : String($0) }.joined()
    }

    /// The property wrapper that would declare the flag.
    var definition: Any {
        let help = ArgumentHelp(option.help, valueName: option.valueName)
        let words = option.words
        return switch option.kind {
        case .flag: Flag(wrappedValue: false, name: .long, help: help)
        case .whole: Option<Int?>(wrappedValue: nil, name: .long, help: help)
        case .number: Option<Double?>(wrappedValue: nil, name: .long, help: help)
        case .text:
            Option<String?>(
                wrappedValue: nil,
                name: .long,
                help: help,
                completion: words.isEmpty ? nil : .list(words)
            )
        }
    }

    /// The value as text; nil if the flag was not given.
    func value(in fields: KeyedDecodingContainer<AnyCodingKey>) throws -> String? {
        let key = AnyCodingKey(option.name)
        return switch option.kind {
        case .flag: try fields.decode(Flag<Bool>.self, forKey: key).wrappedValue ? "true" : nil
        case .whole: try fields.decode(Option<Int?>.self, forKey: key).wrappedValue.map(String.init)
        case .number: try fields.decode(Option<Double?>.self, forKey: key).wrappedValue.map { "\($0)" }
        case .text: try fields.decode(Option<String?>.self, forKey: key).wrappedValue
        }
    }
}
