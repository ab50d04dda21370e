import Foundation
import MegatonTestSupport
import Testing

/// The tests named in the article Behaviours exist and check something.
@Suite struct BehavioursTests {
    /// One row of the article's table.
    struct Row: Sendable, CustomTestStringConvertible {
        /// `B 1`, `K1`, `R1`, `P1`.
        let number: String
        /// Without parentheses.
        let tests: [String]

        var testDescription: String { number }
    }

    private static let article = "Sources/MegatonPipeline/Documentation.docc/Behaviours.md"

    private static let rows: [Row] = ((try? Repository.text(article)) ?? "").split(separator: "\n").compactMap(row)

    /// `| B 1 | the promise | `aTest`, `another` |`
    private static func row(_ line: Substring) -> Row? {
        let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        guard cells.count == 3, cells[0].wholeMatch(of: /(B |K|R|P)[0-9]+/) != nil else { return nil }
        let tests = cells[2].matches(of: /`([A-Za-z0-9_]+)`/).map { String($0.output.1) }
        return Row(number: cells[0], tests: tests)
    }

    /// Names of the tests beneath Tests that can fail: functions with `@Test` that are not disabled and that check
    /// something, either directly or through a function of the same file.
    private static let tests: Set<String> = Repository.swiftFiles("Tests").reduce(into: []) { names, file in
        let functions = functions((try? Repository.text(file)) ?? "")
        var checking = Set(functions.filter { $0.body.contains(/#expect|#require|Issue\.record|\btry\b/) }.map(\.name))
        for _ in 0..<3 {
            checking.formUnion(
                functions.filter { function in
                    function.body.matches(of: /([A-Za-z0-9_]+)\(/).contains { checking.contains(String($0.output.1)) }
                }.map(\.name)
            )
        }
        names.formUnion(functions.filter { $0.isTest && checking.contains($0.name) }.map(\.name))
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
        #expect(!row.tests.isEmpty, "\(row.number) names no test.")
        for test in row.tests {
            let isKnown = Self.tests.contains(test)
            #expect(isKnown, "\(row.number) names \(test), which is no test that checks anything.")
        }
    }

    @Test func everyBehaviourHasARow() {
        let numbers = (1...62).map { "B \($0)" } + (1...10).map { "K\($0)" } + (1...4).map { "R\($0)" }
        #expect(Self.rows.map(\.number) == numbers + (1...9).map { "P\($0)" })
    }
}
