import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The table of rendition options: every option has a row, and the schema and the documents say what the rows say.
@Suite struct RenditionTableTests {
    private static let example = Rendition(
        name: "small",
        width: 10,
        height: 20,
        fit: .cover,
        format: .webp,
        quality: 33,
        background: .black,
        focus: .init(x: 0.25, y: 1),
        dpr: 1.5,
        enlarge: true,
        effort: 2,
        lossless: true,
        animated: true,
        keepMetadata: .copyright,
        profile: .keep,
        qualityProfile: .faithful,
        failOn: .warning
    )

    /// The options that came after the table.
    private static var effects: Rendition {
        var rendition = Rendition(width: 10, height: 20, format: .webp)
        (rendition.trim, rendition.rotate, rendition.flip) = (12, .quarter, .both)
        (rendition.blur, rendition.sharpen, rendition.grayscale) = (1.5, 0.5, true)
        rendition.padding = .init(top: 1, right: 2, bottom: 3, left: 4)
        rendition.watermark = .init(.text("© Me, you"), position: .repeat, opacity: 0.5, scale: 0.25, margin: 3)
        (rendition.maxBytes, rendition.targetScore, rendition.linear) = (20_000, 72.5, true)
        return rendition
    }

    private static let effectTexts = [
        "trim": "12", "rotate": "90", "flip": "both", "blur": "1.5", "sharpen": "true", "grayscale": "true",
        "padding": "1:2:3:4", "maxBytes": "20000", "linear": "true",
        "targetScore": "72.5",
        "watermark": #"{"text":"© Me, you","position":"repeat","opacity":0.5,"scale":0.25,"margin":3}"#,
    ]

    @Test func textsOfEffectsAreReadAsTheJSONIs() throws {
        var rendition = Rendition(width: 10, height: 20, format: .webp)
        for option in RenditionOption.all {
            if let text = Self.effectTexts[option.name] { try option.set(text, in: &rendition) }
        }
        #expect(rendition == Self.effects)
        #expect(rendition.validationError == nil)
        let json = try JSONEncoder().encode(rendition)
        #expect(try JSONDecoder().decode(Rendition.self, from: json) == rendition)
        #expect(try Rendition.jsonSchema.accepts(json))
        func set(_ name: String, _ text: String) throws -> Rendition {
            var rendition = rendition
            try RenditionOption.all.first { $0.name == name }?.set(text, in: &rendition)
            return rendition
        }
        #expect(try set("trim", "true").trim == 10 && set("trim", "false").trim == nil)
        #expect(try set("sharpen", "2").sharpen == 2 && set("sharpen", "false").sharpen == nil)
        #expect(try set("padding", "7").padding == .init(7) && set("padding", "1,2,3,4").padding == rendition.padding)
        #expect(try set("watermark", "© Me").watermark == .init(.text("© Me")))
        #expect(try set("rotate", "270").rotate == .threeQuarters)
        for (name, text) in [
            ("trim", "1.5"), ("sharpen", "x"), ("padding", "1,2"), ("padding", ""), ("watermark", "{"),
            ("watermark", #"{"text":5}"#), ("rotate", "45"), ("flip", "up"), ("maxBytes", "1k"),
        ] {
            let error = #expect(throws: RenditionOption.InvalidText.self) { try set(name, text) }
            #expect(error?.rule.hasPrefix("must ") == true, "\(name)=\(text)")
        }
    }

    @Test func effectsAreInTheIdentityInTheOrderOfTheTable() {
        #expect(
            Self.effects.identity == [
                "10", "20", "inside", "webp", "80", "#ffffff", "linear", "trim=12", "rotate=90", "flip=both",
                "blur=1.5", "sharpen=0.5", "grayscale", "padding=1,2,3,4",
                "watermark=repeat,0.5,0.25,3,text:© Me, you", "maxBytes=20000", "targetScore=72.5",
            ]
        )
    }

    @Test func eachPropertyIsAnOption() {
        let properties = Mirror(reflecting: Rendition()).children.compactMap(\.label)
        #expect(properties.sorted() == RenditionOption.all.map(\.name).sorted())
        #expect(RenditionOption.all.allSatisfy { !$0.help.isEmpty })
    }

    /// A text sets the same value as the JSON does.
    @Test func textsAreReadAsTheJSONIs() throws {
        let texts = [
            "name": "small", "width": "10", "height": "20", "fit": "cover", "format": "webp", "quality": "33",
            "background": "#000000", "focus": "0.25:1", "dpr": "1.5", "enlarge": "true", "effort": "2",
            "lossless": "true", "animated": "true", "keepMetadata": "copyright", "profile": "keep",
            "qualityProfile": "faithful", "failOn": "warning",
        ]
        var rendition = Rendition()
        for option in RenditionOption.all { if let text = texts[option.name] { try option.set(text, in: &rendition) } }
        #expect(rendition == Self.example)
        for option in RenditionOption.all where option.kind != .text {
            let error = #expect(throws: RenditionOption.InvalidText.self) { try option.set("x", in: &rendition) }
            #expect(error?.rule.hasPrefix("must be ") == true)
        }
        #expect(rendition == Self.example, "an invalid text changes nothing")
    }

    /// The identity of a rendition with every option that was there before the table, in the order of stored keys.
    @Test func identitiesStayAsTheyWere() {
        let fields = [
            "10", "20", "cover", "webp", "33", "#000000", "focus=0.25,1.0", "dpr=1.5", "enlarge",
            "qualityProfile=faithful", "failOn=warning", "effort=2", "lossless", "animated", "metadata=copyright",
            "profile=keep",
        ]
        #expect(Self.example.identity == fields)
        let others = Rendition(width: 3, fit: .cover, gravity: .northEast, progressive: true, failOn: .truncated)
        #expect(others.identity == ["3", "", "cover", "jpeg", "80", "#ffffff", "gravity=northeast", "progressive"])
    }

    // MARK: - The schema

    @Test func theSchemaHasTypesAndWords() throws {
        let properties = try #require(Rendition.jsonSchema.properties)
        #expect(properties.keys.sorted() == RenditionOption.all.map(\.name).sorted())
        func names(_ type: JSONSchema.Kind) -> [String] {
            properties.filter { $0.value.type?.all == [type] }.keys.sorted()
        }
        #expect(
            names(.boolean) == ["animated", "enlarge", "flatten", "grayscale", "linear", "lossless", "progressive"]
        )
        #expect(names(.integer) == ["effort", "height", "maxBytes", "quality", "width"])
        #expect(names(.number) == ["blur", "dpr", "targetScore"] && names(.object) == ["focus", "watermark"])
        #expect(properties["trim"]?.type?.all == [.integer, .boolean])
        #expect(properties["sharpen"]?.type?.all == [.number, .boolean])
        #expect(
            properties["padding"]?.type?.all == [.integer, .array] && properties["padding"]?.prefixItems?.count == 4
        )
        #expect(properties["quality"]?.minimum == 1 && properties["quality"]?.maximum == 100)
        #expect(properties["width"]?.maximum == Double(Rendition.maximumSide))
        #expect(properties["format"]?.texts == ["jpeg", "png", "webp", "avif", "gif", "jxl", "jpg"])
        #expect(properties["failOn"]?.texts == ["none", "truncated", "error", "warning"])
        #expect(properties["chroma"]?.type?.all == [.string, .integer])
        #expect(properties["chroma"]?.words?.suffix(2) == [.number(420), .number(444)])
        #expect(properties["gravity"]?.texts?.contains("center") == true)
        #expect(properties["background"]?.words == nil && properties["background"]?.pattern != nil)
    }

    @Test(arguments: [
        #"{"width":256}"#, #"{"height":5,"name":"a.b-c_d"}"#, #"{"width":8192,"height":1,"quality":100}"#,
        #"{"width":5,"format":"jpg","progressive":true}"#, #"{"width":5,"format":"png","effort":9}"#,
        #"{"width":5,"height":5,"fit":"cover","focus":{"x":0,"y":1}}"#, #"{"width":5,"dpr":4,"background":"0aF000"}"#,
        #"{"width":5,"height":5,"fit":"cover","gravity":"smart"}"#, #"{"width":5,"failOn":"none"}"#,
        ##"{"width":5,"background":"#0aF"}"##, #"{"width":5,"background":"fff"}"#,
        #"{"width":5,"chroma":"420"}"#, #"{"width":5,"chroma":444}"#, #"{"width":5,"chroma":"4:2:0"}"#,
        #"{"width":5,"trim":true,"rotate":90,"flip":"both","blur":0.3,"sharpen":false,"grayscale":true}"#,
        #"{"width":5,"trim":0,"rotate":"180","sharpen":2.5,"padding":[1,2,3,4],"maxBytes":5000,"targetScore":72.5}"#,
        #"{"width":5,"padding":4,"watermark":{"text":"© Me","opacity":0.5,"scale":0.2,"margin":4}}"#,
        #"{"width":5,"watermark":{"image":"logo.png","position":"centre","x":0.5,"y":-3}}"#,
    ])
    func theSchemaAcceptsRenditions(_ json: String) throws {
        let data = Data(json.utf8)
        #expect(throws: Never.self) { try JSONDecoder().decode(Rendition.self, from: data) }
        #expect(try Rendition.jsonSchema.accepts(data), "\(json)")
    }

    @Test func theSchemaAcceptsWhatIsWritten() throws {
        for rendition in [Self.example, Rendition(width: 1, height: 2, fit: .cover, gravity: .south)] {
            let json = try JSONEncoder().encode(rendition)
            #expect(try Rendition.jsonSchema.accepts(json))
        }
    }

    @Test(arguments: [
        "{}", "5", "[]", #"{"widht":9}"#, #"{"width":"9"}"#, #"{"width":9.5}"#, #"{"width":0}"#, #"{"width":9000}"#,
        #"{"width":5,"quality":101}"#, #"{"width":5,"name":"../x"}"#, #"{"width":5,"background":"red"}"#,
        #"{"width":5,"background":"ffff"}"#,
        #"{"width":5,"enlarge":"yes"}"#, #"{"width":5,"format":"tiff"}"#, #"{"width":5,"dpr":0.5}"#,
        #"{"width":5,"gravity":"middle"}"#, #"{"width":5,"height":5,"fit":"cover","focus":{"x":2,"y":0}}"#,
        #"{"width":5,"height":5,"fit":"cover","focus":{"x":1}}"#, #"{"width":5,"height":5,"fit":"cover","focus":3}"#,
        #"{"width":5,"height":5,"fit":"cover","focus":{"x":0,"y":0,"z":0}}"#, #"{"width":5,"chroma":422}"#,
        #"{"width":5,"chroma":true}"#, #"{"width":5,"fit":1}"#, #"{"width":5,"trim":300}"#, #"{"width":5,"trim":"1"}"#,
        #"{"width":5,"blur":0}"#, #"{"width":5,"sharpen":11}"#, #"{"width":5,"rotate":45}"#,
        #"{"width":5,"padding":[1,2,3]}"#, #"{"width":5,"padding":[1,2,3,-4]}"#, #"{"width":5,"padding":"3"}"#,
        #"{"width":5,"watermark":{}}"#, #"{"width":5,"watermark":"me"}"#, #"{"width":5,"maxBytes":0}"#,
        #"{"width":5,"targetScore":5}"#, #"{"width":5,"targetScore":101}"#,
        #"{"width":5,"watermark":{"image":"../a"}}"#, #"{"width":5,"watermark":{"text":"a","margin":0.5}}"#,
        #"{"width":5,"watermark":{"text":"a","x":9000}}"#,
    ])
    func theSchemaRefusesOtherFieldsAndValues(_ json: String) throws {
        let data = Data(json.utf8)
        #expect(throws: (any Error).self) { try JSONDecoder().decode(Rendition.self, from: data) }
        #expect(try !Rendition.jsonSchema.accepts(data), "\(json)")
    }

    // MARK: - Documents

    /// Other words for values, which the documents need not list.
    private static let aliases = Array(Rendition.Format.aliases.keys) + Rendition.Chroma.aliases.keys

    @Test func theSchemaOfTheDocumentsIsThis() throws {
        let file = Data(try Repository.text("docs/rendition.schema.json").utf8)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let text = String(decoding: try encoder.encode(Rendition.jsonSchema), as: UTF8.self)
        #expect(
            try JSONDecoder().decode(JSONSchema.self, from: file) == Rendition.jsonSchema,
            "docs/rendition.schema.json has to be \(text)"
        )
    }

    /// The table of `docs/cli.md` has the flags and all their words; "…" stands for those between.
    @Test func theTableOfFlagsIsThis() throws {
        let cells = try DocumentationPages.lines(of: "docs/cli.md").filter { $0.text.hasPrefix("| `--") }.map {
            $0.text.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        }
        let rows = Dictionary(
            cells.map { (String($0[0].dropFirst().prefix { !" `".contains($0) }), $0) },
            uniquingKeysWith: { first, _ in first }
        )
        for option in RenditionOption.all where option.hasFlag {
            let flag = "--" + option.name.map { $0.isUppercase ? "-\($0.lowercased())" : "\($0)" }.joined()
            let row = try #require(rows[flag], "docs/cli.md: \(flag) is missing")
            let values = row[0].split(separator: "`").filter { !$0.hasPrefix(",") }.joined(separator: " ")
                .split(separator: " ").map(String.init).filter { $0 != flag }
            switch option.kind {
            case .flag: #expect(values.isEmpty, "docs/cli.md: \(flag) has no value")
            case .whole, .number: #expect(values == ["N"], "docs/cli.md: \(flag) \(values)")
            case .text:
                guard let words = option.schema.texts else {
                    let forms = option.valueName?.split(separator: "|").map(String.init)
                    #expect(values == forms, "docs/cli.md: \(flag) \(values)")
                    continue
                }
                for value in values { #expect(words.contains(value), "docs/cli.md: \(flag) has no \(value)") }
                if row[0].contains("…") { continue }
                // Beside aliases, the table leaves out defaults that are the absence of an option.
                for word in words where !(["none", "srgb"] + Self.aliases).contains(word) {
                    #expect(values.contains(word), "docs/cli.md: \(flag) \(word) is missing")
                }
            }
        }
    }

    /// The help names the words and the efforts that the types have.
    @Test func theHelpHasAllWords() throws {
        for option in RenditionOption.all {
            guard let words = option.schema.texts, !option.help.contains("…") else { continue }
            for word in words where !Self.aliases.contains(word) {
                #expect(option.help.contains(word), "\(option.name): \(word) is missing in the help")
            }
        }
        let effort = try #require(RenditionOption.all.first { $0.name == "effort" })
        for format in Rendition.Format.allCases {
            guard let efforts = format.efforts else { continue }
            #expect(effort.help.contains(format.rawValue))
            #expect(effort.help.contains("\(efforts.lowerBound) to \(efforts.upperBound)"), "\(format)")
        }
    }
}

/// A JSON value.
private enum JSON: Decodable {
    case null
    case flag(Bool)
    case number(Double)
    case text(String)
    case list([JSON])
    case object([String: JSON])

    init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if value.decodeNil() {
            self = .null
        } else if let flag = try? value.decode(Bool.self) {
            self = .flag(flag)
        } else if let number = try? value.decode(Double.self) {
            self = .number(number)
        } else if let text = try? value.decode(String.self) {
            self = .text(text)
        } else if let list = try? value.decode([JSON].self) {
            self = .list(list)
        } else {
            self = .object(try value.decode([String: JSON].self))
        }
    }
}

extension JSONSchema {
    fileprivate func accepts(_ json: Data) throws -> Bool { accepts(try JSONDecoder().decode(JSON.self, from: json)) }

    /// The allowed values that are texts.
    fileprivate var texts: [String]? {
        words?.compactMap { if case .text(let text) = $0 { text } else { nil } }
    }

    /// Whether a value is valid, by the keywords that the schema has.
    private func accepts(_ value: JSON) -> Bool {
        guard let kinds = type?.all else { return acceptsFields(of: value) }
        return kinds.contains { accepts(value, as: $0) } && acceptsFields(of: value)
    }

    private func accepts(_ value: JSON, as kind: Kind) -> Bool {
        switch (kind, value) {
        case (.boolean, .flag): break
        case (.number, .number(let number)), (.integer, .number(let number)):
            if kind == .integer && number != number.rounded() { return false }
            if number < minimum ?? number || number > maximum ?? number { return false }
            if let words, !words.contains(.number(Int(number))) { return false }
        case (.string, .text(let text)):
            if let words, !words.contains(.text(text)) { return false }
            if let pattern, text.range(of: pattern, options: .regularExpression) == nil { return false }
        case (.array, .list(let items)):
            if items.count < minItems ?? 0 || items.count > maxItems ?? .max { return false }
            return zip(prefixItems ?? [], items).allSatisfy { $0.accepts($1) }
        case (.object, .object(let fields)):
            for (name, value) in fields {
                if let schema = properties?[name] {
                    if !schema.accepts(value) { return false }
                } else if additionalProperties == false {
                    return false
                }
            }
        default: return false
        }
        return true
    }

    private func acceptsFields(of value: JSON) -> Bool {
        if let required {
            guard case .object(let fields) = value, required.allSatisfy({ fields[$0] != nil }) else { return false }
        }
        return anyOf?.contains { $0.accepts(value) } ?? true
    }
}
