import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonTestSupport
import Testing

/// Damage in a run, as its ledger reports it.
@Suite(.timeLimit(.minutes(2))) struct DamageRunTests {
    @Test func aRenditionOfADamagedImageHasANote() async throws {
        let home = try RunTests.Home()
        let whole = try TestImage.jpeg(width: 400, height: 300)
        let cut = whole.prefix(whole.count - whole.count / 20) + [0xFF, 0xD9]
        try home.directory.write(whole, to: "in/whole.jpg")
        try home.directory.write(cut, to: "in/cut.jpg")
        let strict = try await home.run(["in", "--workers", "1"])
        #expect(strict.code == 2, "\(strict.errors)")
        let failed = try #require(home.ledger().first { $0.status == .failed })
        #expect(failed.error?.code == "corrupt_image" && failed.source.hasSuffix("cut.jpg"))
        #expect(failed.error?.message.contains("premature end") == true, "\(failed)")

        let lenient = try await home.run(["in", "--workers", "1", "--fail-on", "none"])
        #expect(lenient.code == 0, "\(lenient.errors)")
        for outcome in try home.ledger() {
            let isCut = outcome.source.hasSuffix("cut.jpg")
            #expect((outcome.notes?.count ?? 0) == (isCut ? 1 : 0), "\(outcome)")
            let times = try #require(outcome.times)
            let sum = times.waiting + times.fetching + times.rendering + times.storing
            #expect(abs(sum - outcome.seconds) < 1e-4 && times.rendering > 0 && times.fetching > 0, "\(outcome)")
        }
    }

    /// An upload or a download that was cut off: half of the coded data, without an end-of-image marker.
    @Test(arguments: ["auto", "vips"])
    func aJPEGThatIsCutOffInTheMiddleIsAcceptedOnDemand(_ engine: String) async throws {
        let home = try RunTests.Home()
        let whole = try TestImage.jpeg(width: 400, height: 300)
        let scan = try #require(whole.range(of: Data([0xFF, 0xDA])))
        try home.directory.write(whole.prefix((scan.upperBound + whole.count) / 2), to: "in/cut.jpg")
        let options = ["in", "-j1", "--engine", engine]
        let strict = try await home.run(options)
        #expect(strict.code == 2, "\(strict.errors)")
        let failed = try #require(try home.ledger().first)
        #expect(failed.error?.code == "corrupt_image" && failed.outputs.isEmpty)
        #expect(failed.error?.message.contains("; give --fail-on none to render it") == true, "\(failed)")
        #expect(home.outputs.isEmpty)

        let lenient = try await home.run(options + ["--fail-on", "none"])
        #expect(lenient.code == 0, "\(lenient.errors)")
        #expect(lenient.errors.contains("1 job has a damaged image, which was rendered as far as possible"))
        let outcomes = try home.ledger()
        let done = try #require(outcomes.first)
        #expect(outcomes.count == 1 && done.status == .done && done.error == nil)
        #expect(done.outputs.first?.width == 256 && done.outputs.first?.height == 192)
        #expect(done.notes?.count == 1 && done.notes?.first?.hasPrefix("the image is damaged") == true, "\(done)")
        #expect(home.outputs == ["cut-256x256.jpg"])
    }

    @Test func aLevelThatThereIsNotIsWrongUsage() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.jpeg(width: 8, height: 8), to: "in/a.jpg")
        let ending = try await home.run(["in", "--fail-on", "sometimes"])
        #expect(ending.code == 64 && ending.errors.contains("none, truncated, error, warning"), "\(ending.errors)")
    }
}
