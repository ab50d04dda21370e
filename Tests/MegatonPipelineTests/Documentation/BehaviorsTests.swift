import Foundation
import MegatonTestSupport
import Testing

/// The tests named in the article Behaviors exist and check something.
@Suite struct BehaviorsTests {
    /// One row of the article's tables.
    struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        /// Without parentheses.
        let tests: [String]

        var testDescription: String { name }
    }

    private static let article = "Sources/MegatonPipeline/Documentation.docc/Behaviors.md"

    private static let rows: [Row] = ((try? Repository.text(article)) ?? "").split(separator: "\n").compactMap(row)

    /// `| name | behavior | `aTest`, `another` |`
    private static func row(_ line: Substring) -> Row? {
        let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        guard cells.count == 3, cells[0] != "name", cells[0] != "---" else { return nil }
        let tests = cells[2].matches(of: /`([A-Za-z0-9_]+)`/).map { String($0.output.1) }
        return Row(name: cells[0].replacing("`", with: ""), tests: tests)
    }

    private static let files = Repository.swiftFiles("Tests") + Repository.swiftFiles("Examples")

    /// Names of the tests that can fail: functions with `@Test` that are not disabled and that check
    /// something, either directly or through a function of the same file.
    private static let tests: Set<String> = files.reduce(into: []) { names, file in
        let text = (try? Repository.text(file)) ?? ""
        guard text.contains("@Test") else { return }
        let functions = functions(text)
        var checking = Set(functions.filter { checks($0.body) }.map(\.name))
        let others = functions.filter { !checking.contains($0.name) }.map { (name: $0.name, calls: calls($0.body)) }
        for _ in 0..<3 {
            checking.formUnion(others.filter { !$0.calls.isDisjoint(with: checking) }.map(\.name))
        }
        names.formUnion(functions.filter { $0.isTest && checking.contains($0.name) }.map(\.name))
    }

    /// Whether a body can fail a test. Without a regular expression, which a debug build matches slowly.
    private static func checks(_ body: String) -> Bool {
        ["#expect", "#require", "Issue.record", " try ", "(try "].contains { body.contains($0) }
    }

    /// The names of the functions that a body calls.
    private static func calls(_ body: String) -> Set<String> {
        Set(body.matches(of: /([A-Za-z0-9_]+)\(/).map { String($0.output.1) })
    }

    /// The functions of a file. A body ends at the brace that is indented like the line on which the function begins.
    private static func functions(_ text: String) -> [(name: String, isTest: Bool, body: String)] {
        text.matches(of: /(?m)^( *)(?:[^\n]*\W)?func ([A-Za-z0-9_]+)/).map { match in
            let rest = text[match.range.upperBound...]
            let end = rest.firstRange(of: "\n\(match.output.1)}\n")?.lowerBound ?? rest.endIndex
            // Attributes stand between the end of the preceding declaration and the name.
            let before = text[..<match.range.upperBound].suffix(2000)
            let attributes = before.components(separatedBy: "\n    }\n").last ?? ""
            let isTest = attributes.contains("@Test") && !attributes.contains(".disabled")
            return (String(match.output.2), isTest, String(rest[..<end]))
        }
    }

    @Test(arguments: rows) func itsTestsExist(_ row: Row) {
        #expect(!row.tests.isEmpty, "\(row.name) names no test.")
        for test in row.tests {
            let isKnown = Self.tests.contains(test)
            #expect(isKnown, "\(row.name) names \(test), which is no test that checks anything.")
        }
    }

    @Test func everyBehaviorHasARow() {
        #expect(Self.rows.map(\.name) == Self.names)
    }

    /// A row that is lost would go unnoticed without them.
    private static let names = """
        equal requests, different processors, different responses, different thumbnails, \
        operations of equal requests, all cancelled, one cancelled, bytes and image, coalescing off, common step, \
        results in memory, intermediate image in memory, intermediate image in a data cache, \
        joining raises priority, options, shared error, one start, events for all, immediate end, last subscriber, \
        dependencies of cancelled work, highest priority, falling priority, inherited priority, failed dependency, \
        queue width, queue order, moves within a queue, cancelled operation, throwing operation, \
        changed queue width, cancelled task, cancelled twice, cancelled in willLoadData, no leaked task, \
        invalidated pipeline, one completion, status codes, interrupted body, redirects, body limit, willLoadData, \
        closures, local sources, resumed download, parts not stored, resumed progress, life of a part, \
        entries of images, entries of bytes, result of an image in memory, thumbnail of a stored original, \
        local originals, reloads, number of lookups, no second encoding, memory cache, disk cache, \
        previews and damaged entries, rate limiter, processors, decoders, \
        distinct keys, keys of downloads, image ids, slow caches, disabled writes, sweeps, whole entries, \
        independent pipelines, concurrent images, late event streams, second interruption, matching parts, \
        weak validators, refused range, \
        shown previews, one preview at a time, processed previews, preview policy, previews in memory, \
        no previews on disk, memory admission, processor limits, processor time
        """.components(separatedBy: ", ")
}
