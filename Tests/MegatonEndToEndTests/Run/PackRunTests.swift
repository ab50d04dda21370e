import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

/// Packs as users meet them: nothing differs but the load on Redis.
@Suite(.timeLimit(.minutes(3))) struct PackRunTests {
    @Test(arguments: ["0", "4", "256"]) func aRunWithPacksHasALineAndAFileForEachSource(_ size: String) async throws {
        let home = try RunTests.Home()
        for index in 0..<10 {
            _ = try home.directory.write(TestImage.quarters(width: 40 + index, height: 40), to: "in/\(index).png")
        }
        _ = try home.directory.write(Data("no image".utf8), to: "in/bad.png")
        let ending = try await home.run(["in", "--pack", size, "--workers", "1"])
        #expect(ending.code == 2, "\(ending.errors)")
        let summary = try home.summary(ending)
        #expect(summary["done"] as? Int == 10 && summary["failed"] as? Int == 1)
        let outcomes = try home.ledger()
        #expect(outcomes.count == 11 && Set(outcomes.map(\.id)).count == 11)
        #expect(home.outputs.count == 10)
        let failed = try #require(outcomes.first { $0.status == .failed })
        #expect(failed.source.hasSuffix("bad.png") && failed.job != nil)
    }

    @Test func aPackSizeOutsideOfItsBoundsIsAnError() async throws {
        let home = try RunTests.Home()
        let ending = try await home.run(["in", "--pack", "257"])
        #expect(ending.code == 64 && ending.errors.contains("--pack"), "\(ending.errors)")
    }
}
