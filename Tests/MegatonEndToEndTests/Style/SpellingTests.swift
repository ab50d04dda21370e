import Foundation
import MegatonTestSupport
import Testing

/// Public symbols have the spelling of the US, as Swift's own symbols have. `isCancelled` stays, as Swift writes it.
@Suite struct SpellingTests {
    /// Beginnings of words that are not spelled like this in the US.
    private static let beginnings = [
        "analyse", "artefact", "behaviour", "catalogue", "centimetre", "centre", "centring", "colour", "defence",
        "favour", "grey", "honour", "judgement", "labell", "licence", "millimetre", "modell", "neighbour", "offence",
        "signall", "travell",
    ]
    /// Verbs and their nouns, which are spelled with a z in the US.
    private static let verbs = [
        "authori", "capitali", "customi", "deseriali", "finali", "generali", "initiali", "locali", "materiali",
        "maximi", "memori", "minimi", "normali", "optimi", "organi", "paralleli", "prioriti", "quanti", "randomi",
        "recogni", "saniti", "seriali", "speciali", "standardi", "summari", "synchroni", "tokeni", "utili", "vectori",
        "visuali",
    ]
    private static let endings = ["se", "ses", "sed", "ser", "sers", "sing", "sation", "sations", "sable"]

    private static func isBritish(_ word: String) -> Bool {
        beginnings.contains { word.hasPrefix($0) }
            || verbs.contains { word.hasPrefix($0) && endings.contains(String(word.dropFirst($0.count))) }
    }

    @Test func publicSymbolsAreAmerican() throws {
        for file in Repository.swiftFiles("Sources") {
            for word in Self.british(in: try Repository.text(file)) { Issue.record("\(file) has \(word)") }
        }
    }

    @Test func britishSymbolsAreFound() {
        let text = """
            /// The colour of grey
            public struct Plane {
                public var coloursUsed = "colour"
                var greyLevels: Int
                public init(
                    neighbour: Int
                ) { let colour = 1 }
                public enum Gravity: String {
                    case centre, center
                    var isGrey: Bool { true }
                }
                @available(*, deprecated, renamed: "center") public static var centre: Int { 1 }
                @available(*, deprecated, renamed: "serialize")
                public func serialise() {}
                public func deserialised() {}
            }
            """
        #expect(Self.british(in: text) == ["colours", "neighbour", "centre", "deserialised"])
    }

    /// The British words in a file's public declarations. A declaration ends with the bracket that is indented like its
    /// first line. Deprecated symbols are left out, as users may still write them.
    private static func british(in text: String) -> [String] {
        var found: [String] = []
        var open: (end: String, isEnumeration: Bool)?
        // Whether the line before has the attribute.
        var wasDeprecated = false
        for line in text.components(separatedBy: "\n") {
            let indentation = String(line.prefix { $0 == " " })
            let code = line.dropFirst(indentation.count)
            if let declaration = open, line.hasPrefix(declaration.end + ")") || line == declaration.end + "}" {
                open = nil
            }
            let isDeprecated = wasDeprecated || code.contains("deprecated")
            wasDeprecated = isDeprecated && code.hasSuffix(")")
            guard !code.hasPrefix("//"), !isDeprecated else { continue }
            let isPublic = code.split(separator: " ").prefix(3).contains { $0 == "public" || $0 == "open" }
            let isCase = open?.isEnumeration == true && code.hasPrefix("case ")
            let isParameter = open?.isEnumeration == false
            guard isPublic || isCase || isParameter else { continue }
            found += words(in: code).filter(isBritish)
            if isPublic, code.contains("enum "), code.hasSuffix("{") { open = (indentation, true) }
            if isPublic, code.hasSuffix("(") { open = (indentation, false) }
        }
        return found
    }

    /// The words of the names in a line, without its strings: `coloursUsed` has two.
    private static func words(in code: Substring) -> [String] {
        let names = code.split(separator: "\"", omittingEmptySubsequences: false).enumerated().filter {
            $0.offset % 2 == 0
        }
        return names.flatMap { $0.element.matches(of: /[A-Z]?[a-z]+|[A-Z]+(?![a-z])/) }.map { $0.output.lowercased() }
    }
}
