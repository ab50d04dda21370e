import MegatonPipelineTesting
import Testing

/// Runs the code of the article of MegatonPipelineTesting.
@Suite(.timeLimit(.minutes(2))) struct TestingArticleTests {
    @Test(arguments: DataCachingConformance.Check.allCases.filter { ![.remove, .removeAll].contains($0) })
    func fewBytesConform(_ check: DataCachingConformance.Check) async throws {
        try await DataCachingConformance(FewBytes()).run(check)
    }

    @Test func aFailureSaysWhichRule() async {
        let failure = await #expect(throws: ConformanceFailure.self) {
            try await DataCachingConformance(FewBytes()).run(.removeAll)
        }
        #expect(failure?.rule == "removeAll removes every entry, and the cache is usable afterwards")
    }

    @Test func theArticleHasAllRules() throws {
        let article = try Repository.text("Sources/MegatonPipelineTesting/Documentation.docc/TestingYourOwn.md")
        let rules =
            DataCachingConformance.Check.allCases.map { ("\($0)", $0.rule) }
            + DataLoadingConformance.Check.allCases.map { ("\($0)", $0.rule) }
        for (check, rule) in rules { #expect(article.contains("| `\(check)` | \(rule) |")) }
    }
}
