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
        #expect(names(.boolean) == ["animated", "enlarge", "lossless", "progressive"])
        #expect(names(.integer) == ["effort", "height", "quality", "width"])
        #expect(names(.number) == ["dpr"] && names(.object) == ["focus"])
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
        #"{"width":5,"chroma":"420"}"#, #"{"width":5,"chroma":444}"#, #"{"width":5,"chroma":"4:2:0"}"#,
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
        #"{"width":5,"enlarge":"yes"}"#, #"{"width":5,"format":"tiff"}"#, #"{"width":5,"dpr":0.5}"#,
        #"{"width":5,"gravity":"middle"}"#, #"{"width":5,"height":5,"fit":"cover","focus":{"x":2,"y":0}}"#,
        #"{"width":5,"height":5,"fit":"cover","focus":{"x":1}}"#, #"{"width":5,"height":5,"fit":"cover","focus":3}"#,
        #"{"width":5,"height":5,"fit":"cover","focus":{"x":0,"y":0,"z":0}}"#, #"{"width":5,"chroma":422}"#,
        #"{"width":5,"chroma":true}"#, #"{"width":5,"fit":1}"#,
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
                    #expect(values == ["X,Y"], "docs/cli.md: \(flag) \(values)")
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
