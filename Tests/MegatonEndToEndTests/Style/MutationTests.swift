import Foundation
import MegatonTestSupport
import Testing

/// The mutations that `scripts/mutations` runs still fit the source, and their tests exist.
@Suite struct MutationTests {
    private static let files = Repository.files("Tests/Mutations").filter { $0.hasSuffix(".txt") }

    @Test(arguments: files) func aMutationFitsTheSource(_ file: String) throws {
        let parts = try Repository.text(file).components(separatedBy: "\n--- replace\n")
        let pieces = try #require(parts.last).components(separatedBy: "\n--- by\n")
        #expect(parts.count == 2 && pieces.count == 2)
        let fields = Dictionary(
            parts[0].components(separatedBy: "\n").map { line in
                let words = line.components(separatedBy: ": ")
                return (words[0], words.dropFirst().joined(separator: ": "))
            },
            uniquingKeysWith: { first, _ in first }
        )
        let name = try #require(fields["file"])
        let sources = Repository.files("Sources").filter { $0.hasSuffix("/\(name)") }
        #expect(sources.count == 1, "\(sources.count) files are named \(name)")
        let occurrences = try Repository.text(try #require(sources.first)).components(separatedBy: pieces[0]).count - 1
        #expect(occurrences == 1, "\(name) has \(occurrences) times: \(pieces[0])")
        let test = try #require(fields["test"]).components(separatedBy: "/")
        let isThere = try Repository.swiftFiles("Tests").contains {
            let text = try Repository.text($0)
            return text.contains("struct \(test[0]) {") && text.contains("func \(test[1])(")
        }
        #expect(isThere, "there is no test \(test.joined(separator: "/"))")
        #expect(fields["rule"]?.isEmpty == false)
    }

    @Test func thereAreTwentyMutations() {
        #expect(Self.files.count == 20)
    }
}
