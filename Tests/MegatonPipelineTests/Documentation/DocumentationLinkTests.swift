import Foundation
import MegatonTestSupport
import Testing

/// The pages beside the articles: their links lead somewhere, and what they name exists.
@Suite struct DocumentationLinkTests {
    /// A relative link of a page.
    struct Link: Sendable, CustomTestStringConvertible {
        let page: String
        let line: Int
        /// A path relative to the page, with an anchor or without.
        let target: String

        var testDescription: String { "\(page):\(line) \(target)" }
    }

    private static let links: [Link] = DocumentationPages.names.flatMap { page in
        let lines = (try? DocumentationPages.lines(of: page)) ?? []
        return lines.filter { !$0.isCode }.flatMap { line in
            targets(in: line.text).filter { !$0.contains("://") }
                .map { Link(page: page, line: line.number, target: $0) }
        }
    }

    /// Targets of `[text](target)` and of `[name]: target`.
    private static func targets(in line: String) -> [String] {
        if line.hasPrefix("["), let colon = line.range(of: "]: ") { return [String(line[colon.upperBound...])] }
        return line.components(separatedBy: "](").dropFirst().map { $0.components(separatedBy: ")")[0] }
    }

    /// The anchors of a page's headings, as GitHub makes them.
    private static func anchors(of page: String) throws -> [String] {
        try DocumentationPages.lines(of: page).filter { !$0.isCode && $0.text.hasPrefix("#") }.map { line in
            let heading = line.text.drop { $0 == "#" }.trimmingCharacters(in: .whitespaces).lowercased()
            let kept = heading.filter { $0.isLetter || $0.isNumber || " -_".contains($0) }
            return kept.replacingOccurrences(of: " ", with: "-")
        }
    }

    @Test(arguments: links) func aLinkLeadsSomewhere(_ link: Link) throws {
        let parts = link.target.components(separatedBy: "#")
        let folder = link.page.components(separatedBy: "/").dropLast().map { $0 + "/" }.joined()
        let file = parts[0].isEmpty ? link.page : folder + parts[0]
        #expect(FileManager.default.fileExists(atPath: "\(Repository.root)/\(file)"), "there is no \(file)")
        guard parts.count > 1 else { return }
        let anchors = try Self.anchors(of: file)
        #expect(anchors.contains(parts[1]), "\(file) has no heading #\(parts[1])")
    }

    @Test func thereAreLinks() {
        #expect(Self.links.count >= 30)
        #expect(Self.targets(in: "a [b](c.md#d), [e](f)") == ["c.md#d", "f"])
        #expect(Self.targets(in: "[a]: ../b.md") == ["../b.md"])
    }

    /// `[text][name]` needs a line `[name]: target`.
    @Test(arguments: DocumentationPages.names) func referencesAreDefined(_ page: String) throws {
        let lines = try DocumentationPages.lines(of: page).filter { !$0.isCode }.map(\.text)
        for line in lines {
            for piece in line.components(separatedBy: "][").dropFirst() {
                let name = piece.components(separatedBy: "]")[0]
                #expect(lines.contains { $0.hasPrefix("[\(name)]: ") }, "\(page) does not define [\(name)]")
            }
        }
    }

    @Test(arguments: DocumentationPages.names) func scriptsExist(_ page: String) throws {
        for piece in try Repository.text(page).components(separatedBy: "scripts/").dropFirst() {
            let name = piece.prefix { $0.isLetter || $0.isNumber || "-_./".contains($0) }
            let path = "scripts/" + String(name).trimmingCharacters(in: CharacterSet(charactersIn: "./"))
            #expect(FileManager.default.fileExists(atPath: "\(Repository.root)/\(path)"), "\(page) names \(path)")
        }
    }

    @Test(arguments: DocumentationPages.names) func linesHaveAtMost120Columns(_ page: String) throws {
        for line in try DocumentationPages.lines(of: page) where line.text.count > 120 {
            Issue.record("\(page):\(line.number) has \(line.text.count) columns")
        }
    }

    /// More belongs into `docs`: the README is read whole, or not at all.
    @Test func theREADMEIsShort() throws {
        let size = try Repository.text("README.md").utf8.count
        #expect(size <= 6_000)
    }
}
