import Foundation
import MegatonTestSupport
import Testing

/// The public API is only for users of the package, and is documented.
@Suite struct PublicAPITests {
    /// A public declaration: the line on which it begins.
    private struct Declaration {
        let file: String
        let line: Int
        let text: String
        let isDocumented: Bool

        /// The name that is declared; nil for subscripts and operators.
        var name: String? {
            if text.contains("init(") || text.contains("init?(") { return "init" }
            return text.firstMatch(of: /\b(?:func|var|let|struct|class|enum|protocol|actor|typealias)\s+`?(\w+)/).map {
                String($0.output.1)
            }
        }
    }

    /// Those of all sources. Found once, for two tests.
    private static let declarations: Result<[Declaration], any Error> = Result { try findDeclarations() }

    private static func findDeclarations() throws -> [Declaration] {
        try Repository.swiftFiles("Sources").flatMap { file in
            let lines = try Repository.text(file).components(separatedBy: "\n")
                .map { $0.trimmingCharacters(in: .whitespaces) }
            return lines.indices.compactMap { index -> Declaration? in
                let text = lines[index]
                // Most lines need no regular expression, which a debug build matches slowly.
                guard text.hasPrefix("public ") || text.hasPrefix("open ") || text.hasPrefix("@"),
                    text.firstMatch(of: #/^(?:@\S+ )*(?:public|open (?:class|func|var)) /#) != nil,
                    text.firstMatch(of: #/^(?:@_exported )?public (?:import|extension) /#) == nil
                else { return nil }
                let before = lines[..<index].last { !$0.hasPrefix("@") } ?? ""
                return Declaration(file: file, line: index + 1, text: text, isDocumented: before.hasPrefix("///"))
            }
        }
    }

    /// Names of the documented requirements of our public protocols.
    private static func requirements() throws -> Set<String> {
        var names: Set<String> = []
        for file in Repository.swiftFiles("Sources") {
            let lines = try Repository.text(file).components(separatedBy: "\n")
            for start in lines.indices where lines[start].contains("public protocol ") {
                let indent = String(lines[start].prefix { $0 == " " })
                let body = lines[(start + 1)...].prefix { !$0.hasPrefix(indent + "}") }
                for line in body {
                    guard let match = line.firstMatch(of: /\b(?:func|var)\s+(\w+)/) else { continue }
                    names.insert(String(match.output.1))
                }
            }
        }
        return names
    }

    /// Witnesses of protocols of the standard library.
    private static let standard: Set<String> = [
        "description", "debugDescription", "customMirror", "hash", "encode", "rawValue",
    ]

    @Test func publicDeclarationsAreLimited() throws {
        let count = try Self.declarations.get().count
        #expect((500...1100).contains(count), "there are \(count)")
    }

    @Test func publicDeclarationsAreDocumented() throws {
        let witnesses = try Self.requirements().union(Self.standard)
        for declaration in try Self.declarations.get() where !declaration.isDocumented {
            let text = declaration.text
            if let name = declaration.name, witnesses.contains(name) { continue }
            if text.contains("static func ==") || text.contains("static func <") { continue }
            if text.contains("init(from decoder") || text.contains("init(rawValue:") { continue }
            if text.firstMatch(of: #/init\(\w+Literal /#) != nil { continue }
            Issue.record("\(declaration.file):\(declaration.line) is not documented: \(text)")
        }
    }

    /// Such members would appear in every program that imports a library of this package.
    @Test func commonTypesAreNotExtendedInPublic() throws {
        for file in Repository.swiftFiles("Sources") {
            let lines = try Repository.text(file).components(separatedBy: "\n")
            for start in lines.indices
            where lines[start].hasPrefix("extension ") || lines[start].hasPrefix("public extension ") {
                let types = /^(?:public )?extension (?:Duration|Decoder|CodingUserInfoKey|KeyedDecodingContainer)\b/
                guard lines[start].firstMatch(of: types) != nil else { continue }
                #expect(!lines[start].hasPrefix("public"), "\(file):\(start + 1)")
                for line in lines[(start + 1)...].prefix(while: { !$0.hasPrefix("}") }) {
                    #expect(!line.contains("public "), "\(file): \(line)")
                }
            }
        }
    }
}
