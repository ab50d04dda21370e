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

    /// Facts of `--facts`, and of jobs of a list that ask for others.
    @Test func theLedgerHasTheFactsOfFilesAndOfJobs() async throws {
        let home = try RunTests.Home()
        let jpeg = try TestImage.jpeg(width: 40, height: 20)
        let camera = TestEXIF.jpeg(
            jpeg,
            orientation: 6,
            texts: [0x010F: "Canon", 0x0110: "EOS R5"],
            date: "2026:05:01 12:30:59"
        )
        let images = [
            "camera.jpg": camera, "credentials.jpg": TestJPEG.inserting(TestJPEG.credentials, into: jpeg),
            "gain-map.jpg": TestJPEG.inserting(TestJPEG.gainMap, into: jpeg),
            "animation.gif": SourceLimitTests.animation, "alpha.png": TestImage.quarters(width: 40, height: 20),
        ]
        for (name, data) in images { try home.directory.write(data, to: "in/\(name)") }
        let jobs = ["none": "[]", "hash": #"["phash"]"#, "both": #"["exif","phash"]"#].map { name, facts in
            #"{"source":"file://\#(home.directory.path)/in/camera.jpg","facts":\#(facts),"#
                + #""renditions":[{"name":"\#(name)","width":9}]}"#
        }
        try home.directory.write(Data(jobs.joined(separator: "\n").utf8), to: "jobs.jsonl")
        let all = try await ledger(home, ["jobs.jsonl", "--facts", "exif"])
        #expect(all.count == images.count + jobs.count)

        let ofFiles = all.filter { $0.outputs.first?.name == "256x256" }
        let ofJobs = all.filter { $0.outputs.first?.name != "256x256" }
        let files = Dictionary(uniqueKeysWithValues: ofFiles.map { (($0.source as NSString).lastPathComponent, $0) })
        func facts(_ name: String) throws -> SourceFacts { try #require(files[name]?.facts, "\(name): \(files)") }
        let photo = try facts("camera.jpg")
        #expect((photo.width, photo.height, photo.orientation, photo.bytes) == (40, 20, 6, camera.count))
        #expect((photo.exif?.make, photo.exif?.model) == ("Canon", "EOS R5"))
        #expect(photo.exif?.date == "2026-05-01T12:30:59" && photo.perceptualHash == nil)
        let output = try #require(files["camera.jpg"]?.outputs.first)
        #expect((output.width, output.height) == (20, 40), "the output is upright")
        for name in images.keys {
            let found = try facts(name)
            #expect(found.hasC2PA == (name == "credentials.jpg"), "\(name)")
            #expect(found.hasGainMap == (name == "gain-map.jpg"), "\(name)")
            #expect(found.isAnimated == (name == "animation.gif"), "\(name)")
            #expect(found.frames == (name == "animation.gif" ? 3 : 1), "\(name)")
            #expect((found.exif != nil) == (name == "camera.jpg"), "\(name)")
            #expect(found.orientation == (name == "camera.jpg" ? 6 : 1), "\(name)")
        }
        #expect(try facts("alpha.png").hasAlpha && facts("alpha.png").format == "png")
        #expect(try !facts("camera.jpg").hasAlpha && facts("animation.gif").format == "gif")

        func wanted(_ name: String) -> SourceFacts? { ofJobs.first { $0.outputs.first?.name == name }?.facts }
        #expect(ofJobs.count == 3 && wanted("none") == nil)
        #expect(wanted("hash")?.perceptualHash != nil && wanted("hash")?.exif == nil)
        #expect(wanted("both")?.perceptualHash == wanted("hash")?.perceptualHash)
        #expect(wanted("both")?.exif == photo.exif)
    }

    @Test(arguments: ["gps", "exif,", "none,exif", ""])
    func otherFactsAreRefused(_ facts: String) async throws {
        let ending = await (try ProgramUnderTest.megaton(["run", "x", "-o", "o", "--facts", facts])).ending()
        #expect(ending.code == 64 && ending.errors.contains("--facts must be none, or a list of exif, phash"))
    }
}
