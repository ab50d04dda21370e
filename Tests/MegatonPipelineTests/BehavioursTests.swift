import Foundation
import MegatonTestSupport
import Testing

/// The tests that the article Behaviours names exist.
@Suite struct BehavioursTests {
    /// A row of the table.
    struct Row: Sendable, CustomTestStringConvertible {
        /// `B 1`, `K1`, `R1`, `P1`.
        let number: String
        /// Without parentheses.
        let tests: [String]

        var testDescription: String { number }
    }

    private static let article = "Sources/MegatonPipeline/Documentation.docc/Behaviours.md"

    private static let rows: [Row] = ((try? Repository.text(article)) ?? "").split(separator: "\n").compactMap(row)

    /// `| B 1 | what is promised | `aTest`, `another` |`
    private static func row(_ line: Substring) -> Row? {
        let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        guard cells.count == 3, cells[0].wholeMatch(of: /(B |K|R|P)[0-9]+/) != nil else { return nil }
        let tests = cells[2].matches(of: /`([A-Za-z0-9_]+)`/).map { String($0.output.1) }
        return Row(number: cells[0], tests: tests)
    }

    /// What any file beneath Tests has as a function.
    private static let functions: Set<String> = Repository.swiftFiles("Tests").reduce(into: []) { names, file in
        let text = (try? Repository.text(file)) ?? ""
        names.formUnion(text.matches(of: /func ([A-Za-z0-9_]+)/).map { String($0.output.1) })
    }

    @Test(arguments: rows) func itsTestsExist(_ row: Row) {
        #expect(!row.tests.isEmpty, "\(row.number) names no test.")
        for test in row.tests {
            #expect(Self.functions.contains(test), "\(row.number) names \(test), which no file beneath Tests has.")
        }
    }

    @Test func everyBehaviourHasARow() {
        let numbers = (1...62).map { "B \($0)" } + (1...10).map { "K\($0)" } + (1...4).map { "R\($0)" }
        #expect(Self.rows.map(\.number) == numbers + (1...9).map { "P\($0)" })
    }
}
