import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

/// Facts about the sources in the ledger of `megaton run`.
@Suite(.timeLimit(.minutes(3))) struct FactsRunTests {
    private func ledger(_ home: RunTests.Home, _ arguments: [String]) async throws -> [JobOutcome] {
        let ending = await (try home.megaton(["run", "in", "--output", home.output, "-j", "1"] + arguments)).ending()
        #expect(ending.code == 0, "\(ending.errors)")
        return try home.ledger()
    }

    @Test func theLedgerHasFactsOfRenderedAndOfCachedImages() async throws {
        let home = try RunTests.Home()
        let png = TestImage.quarters(width: 120, height: 80)
        try home.directory.write(png, to: "in/a.png")
        try home.directory.write(try TestImage.jpeg(width: 300, height: 200), to: "in/b.jpg")
        let made = try await ledger(home, ["--facts", "phash"])
        #expect(made.count == 2 && made.flatMap(\.outputs).allSatisfy { $0.from == .render })
        let image = try #require(made.first { $0.source.hasSuffix("a.png") }?.facts)
        #expect((image.width, image.height, image.bytes, image.format) == (120, 80, png.count, "png"))
        #expect(image.thumbHash != nil && image.dominantColor != nil && image.perceptualHash != nil)
        let gray = try #require(made.first { $0.source.hasSuffix("b.jpg") }?.facts?.dominantColor)
        #expect(abs(Int(gray.red) - 90) <= 2 && abs(Int(gray.blue) - 90) <= 2, "\(gray)")

        let found = try await ledger(home, ["--facts", "phash"])
        #expect(found.flatMap(\.outputs).allSatisfy { $0.from == .cache })
        let facts = { (outcomes: [JobOutcome]) in
            Dictionary(uniqueKeysWithValues: outcomes.map { ($0.source, $0.facts) })
        }
        #expect(facts(found) == facts(made))

        let usual = try await ledger(home, [])
        #expect(usual.allSatisfy { $0.facts != nil && $0.facts?.perceptualHash == nil })
        #expect(try await ledger(home, ["--facts", "none"]).allSatisfy { $0.facts == nil })
    }

    @Test(arguments: ["gps", "exif,", "none,exif", ""])
    func otherFactsAreRefused(_ facts: String) async throws {
        let ending = await (try ProgramUnderTest.megaton(["run", "x", "-o", "o", "--facts", facts])).ending()
        #expect(ending.code == 64 && ending.errors.contains("--facts must be none, or a list of exif, phash"))
    }
}
