import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonTestSupport
import Testing

/// Runs with effects, presets and watermarks, from the command line to the files.
@Suite(.timeLimit(.minutes(3))) struct EffectRunTests {
    private static let image = TestImage.quarters(width: 64, height: 32)

    @Test func optionsReachTheOutputs() async throws {
        let home = try RunTests.Home()
        try home.directory.write(Self.image, to: "in/a.png")
        let options = ["--size", "32", "--rotate", "90", "--padding", "2", "--watermark", "©", "--format", "webp"]
        let ending = try await home.run(["in", "--workers", "1", "--max-bytes", "20000"] + options)
        #expect(ending.code == 0, "\(ending.errors)")
        let output = try #require(try home.ledger().first?.outputs.first)
        // 64x32, rotated and scaled to 16x32, and padded.
        #expect(output.width == 20 && output.height == 36 && output.bytes <= 20_000)
        let again = try await home.run(["in", "--workers", "1", "--max-bytes", "20000"] + options)
        #expect(try home.summary(again)["renders"] as? Int == 0, "\(again.errors)")

        let small = try await home.run(["in", "--workers", "1", "--max-bytes", "10"] + options)
        #expect(small.code == 2)
        let error = try #require(try home.ledger().first?.error)
        #expect(error.code == "output_too_large" && !error.retryable && error.message.contains("maxBytes is 10"))
    }

    @Test func theScoreIsInTheLedgerAndInTheCache() async throws {
        let home = try RunTests.Home()
        try home.directory.write(Self.image, to: "in/a.png")
        let options = ["in", "--workers", "1", "--size", "64", "--target-score", "60"]
        var scores: [Double] = []
        for renders in [1, 0] {
            let ending = try await home.run(options)
            #expect(try home.summary(ending)["renders"] as? Int == renders, "\(ending.errors)")
            scores.append(try #require(try home.ledger().first?.outputs.first?.score))
        }
        #expect(scores[0] >= 60 && scores[0] == scores[1], "\(scores)")
    }

    // MARK: - Presets

    @Test func aPresetIsMadeByOptionAndByJob() async throws {
        let home = try RunTests.Home()
        try home.directory.write(Self.image, to: "in/a.png")
        let presets = #"{"card": [{"name": "c", "width": 20, "grayscale": true}], "two": [{"width": 8}, {"width": 4}]}"#
        try home.directory.write(Data(presets.utf8), to: "presets.json")
        let options = ["--workers", "1", "--presets", "presets.json"]
        let card = try await home.run(["in", "--preset", "card"] + options)
        #expect(card.code == 0, "\(card.errors)")
        #expect(home.outputs == ["a-c.jpg"])

        let job = #"{"source": "file://\#(home.directory.path)/in/a.png", "preset": "two"}"#
        let unknown = #"{"source": "file://\#(home.directory.path)/in/a.png", "preset": "tow"}"#
        try home.directory.write(Data("\(job)\n\(unknown)\n".utf8), to: "jobs.jsonl")
        let jobs = try await home.run(["jobs.jsonl"] + options)
        #expect(jobs.code == 2, "\(jobs.errors)")
        let ledger = try home.ledger()
        #expect(ledger.first { $0.status == .done }?.outputs.map(\.name).sorted() == ["4x", "8x"])
        let error = try #require(ledger.first { $0.status == .failed }?.error)
        #expect(error.code == "invalid_job" && error.message.contains("card, two"), "\(error)")
    }

    @Test func aPresetThatCannotBeUsedIsWrongUsage() async throws {
        let home = try RunTests.Home()
        try home.directory.write(Self.image, to: "in/a.png")
        try home.directory.write(Data(#"{"card": [{"width": 20}]}"#.utf8), to: "presets.json")
        try home.directory.write(Data(#"{"card": [{"width": 0}]}"#.utf8), to: "broken.json")
        for (options, message) in [
            (["--preset", "cart", "--presets", "presets.json"], "its presets are card. Did you mean card?"),
            (["--preset", "card", "--presets", "presets.json", "--blur", "2"], "--blur does not go with --preset"),
            (["--preset", "card", "--background", "000000"], "--background does not go with --preset"),
            (["--preset", "card"], "needs --presets FILE"),
            (["--presets", "broken.json"], "width is 0"),
            (["--presets", "none.json"], "none.json cannot be read"),
            // As a pipe of the shell, which is empty when it is read again.
            (["--presets", "/dev/null"], "is not a regular file, but presets are read more than once"),
        ] {
            let ending = try await home.run(["in", "--workers", "1"] + options)
            #expect(ending.code == 64 && ending.errors.contains(message), "\(options): \(ending.errors)")
        }
    }

    // MARK: - Watermarks

    @Test func aWatermarkComesFromItsDirectory() async throws {
        let home = try RunTests.Home()
        try home.directory.write(Self.image, to: "in/a.png")
        func logo(_ shade: UInt8) throws {
            let data = TestImage.png(width: 8, height: 8) { _, _ in (shade, 0, 0, 255) }
            try home.directory.write(data, to: "marks/logo.png")
        }
        let mark = ["--watermark", #"{"image": "logo.png"}"#, "--size", "32", "--format", "png"]
        let options = ["in", "--workers", "1", "--watermarks", "marks"] + mark
        try logo(200)
        let first = try await home.run(options)
        #expect(first.code == 0, "\(first.errors)")
        #expect(try home.summary(try await home.run(options))["renders"] as? Int == 0)
        try logo(100)
        let changed = try await home.run(options)
        #expect(try home.summary(changed)["renders"] as? Int == 1, "a changed logo is another rendition")

        // A job with renditions of its own is known only when it is read.
        let job =
            #"{"source": "file://\#(home.directory.path)/in/a.png", "renditions": [{"width": 32, "watermark": "#
            + #"{"image": "logo.png"}}]}"#
        try home.directory.write(Data("\(job)\n".utf8), to: "jobs.jsonl")
        let missing = try await home.run(["jobs.jsonl", "--workers", "1"])
        #expect(missing.code == 2)
        let error = try #require(try home.ledger().first?.error)
        #expect(error.code == "invalid_job" && !error.retryable)
        #expect(error.message.contains("\"logo.png\"") && error.message.contains("--watermarks"), "\(error.message)")

        try home.directory.write(Data("no image".utf8), to: "marks/notes.txt")
        let beside = try await home.run(options)
        #expect(beside.code == 0, "no rendition names it: \(beside.errors)")
        let named = ["--watermark", #"{"image": "notes.txt"}"#]
        let broken = try await home.run(["in", "--workers", "1", "--watermarks", "marks"] + named)
        #expect(broken.code == 64 && broken.errors.contains("marks/notes.txt: "), "\(broken.errors)")
    }

    @Test func aWatermarkThatCannotBeDrawnIsWrongUsage() async throws {
        let home = try RunTests.Home()
        try home.directory.write(Self.image, to: "in/a.png")
        try home.directory.write(Self.image, to: "marks/logo.png")
        try home.directory.write(Self.image, to: "marks/mark")
        let image = ["--watermark", #"{"image": "lgo.png"}"#]
        for (arguments, words) in [
            (["--watermark", "marks/mark"], #"{"image": "mark"}"#),
            (["--watermark", "no/such.PNG"], #""no/such.PNG" would be drawn as a text"#),
            (["--rendition", "width=5,watermark=logo.svg"], "--rendition: the watermark"),
            (["--watermarks", "marks/logo.png"], "--watermarks marks/logo.png is not a directory"),
            (["--watermarks", "mraks"], "--watermarks mraks: no such directory"),
            (image, "give the directory that has this image with --watermarks DIR"),
            (image + ["--watermarks", "marks"], "Did you mean logo.png?"),
        ] {
            let ending = try await home.run(["in", "--workers", "1"] + arguments)
            #expect(ending.code == 64 && ending.errors.contains(words), "\(ending.errors)")
            #expect(home.outputs.isEmpty)
        }
    }
}
