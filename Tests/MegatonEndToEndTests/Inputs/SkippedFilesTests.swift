import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCLI
@testable import MegatonCommandLine

/// Files of directories that are left out, as the run reports them.
@Suite(.timeLimit(.minutes(2))) struct SkippedFilesTests {
    private func skipped(_ names: [String]) -> SkippedFiles {
        var files = SkippedFiles()
        for name in names { files.add(name) }
        return files
    }

    @Test func theMostFrequentExtensionsAreNamedFirst() {
        #expect(skipped([]).remark == nil)
        #expect(
            skipped(["a.PDF"]).remark
                == "1 file in the directories was left out: its name is not that of an image (1 .pdf)."
        )
        let names = [
            "a.bmp", "b.BMP", "c.bmp", "a.ico", "b.ico", "README", "a.cr2", "b.tif", "a.docx", "a.zip", "b.zip",
        ]
        #expect(
            skipped(names).remark
                == "11 files in the directories were left out: their names are not those of images "
                + "(3 .bmp, 2 .ico, 2 .zip, 1 without an extension, 1 .cr2 and 2 others)."
        )
        #expect(skipped(names).count(of: ["tif", "bmp"]) == 4)
    }

    /// The end of a name is shown on a terminal only if it looks like an extension.
    @Test func otherEndsOfNamesAreNoExtensions() {
        let names = ["a.\u{1B}[31m", "b.x y", "c.\(String(repeating: "x", count: 17))", "d.", "e.größe"]
        #expect(skipped(names).remark?.hasSuffix("(5 without an extension).") == true)
    }

    @Test func extensionsAreCountedUpToALimit() {
        let files = skipped((0..<100_000).map { "a.x\($0)" } + Array(repeating: "b.x7", count: 3))
        #expect(files.count == 100_003 && files.count(of: ["x7"]) == 4)
        #expect((0..<100_000).reduce(0) { $0 + files.count(of: ["x\($1)"]) } == 103, "100 extensions are counted apart")
        #expect(files.remark?.hasSuffix("(4 .x7, 1 .x0, 1 .x1, 1 .x10, 1 .x11 and 99995 others).") == true)
    }

    @Test func theRemedyIsForFormatsThatItHelps() {
        #expect(WorkerOptions.remedy(for: skipped(["a.bmp", "b.pdf", "c.svgz"])) == "")
        #expect(WorkerOptions.remedy(for: skipped(["a.tif"])) == " --allow-type tiff reads it.")
        #expect(
            WorkerOptions.remedy(for: skipped(["a.tif", "b.TIFF", "c.svg", "d.ico"]))
                == " --allow-type svg --allow-type tiff read 3 of them."
        )
    }

    @Test func aRunSaysWhichFilesItLeftOut() async throws {
        let home = try RunTests.Home()
        try home.writeImages("in/a.png")
        for name in ["scan.pdf", "b.bmp", "sub/c.bmp", "d.tif"] { try home.directory.write(Data(), to: "in/\(name)") }
        let ending = try await home.run(["in", "-j1"])
        #expect(ending.code == 0, "\(ending.errors)")
        let reason = "4 files in the directories were left out: their names are not those of images"
        #expect(
            ending.errors.contains("\(reason) (2 .bmp, 1 .pdf, 1 .tif). --allow-type tiff reads 1 of them."),
            "\(ending.errors)"
        )
        try FileManager.default.removeItem(atPath: home.directory.path + "/in/d.tif")
        let second = try await home.run(["in", "-j1"])
        #expect(
            second.errors.contains("(2 .bmp, 1 .pdf).") && !second.errors.contains("--allow-type"),
            "\(second.errors)"
        )
    }

    @Test func aPlanSaysWhichFilesItLeavesOut() async throws {
        let home = try RunTests.Home()
        try home.writeImages("in/a.png")
        for name in ["scan.pdf", "d.tif"] { try home.directory.write(Data(), to: "in/\(name)") }
        let reason = "2 files in the directories were left out: their names are not those of images (1 .pdf, 1 .tif)."
        for arguments in [["plan", "in"], ["run", "in", "--dry-run"]] {
            let ending = await (try home.megaton(arguments + ["-o", home.output])).ending()
            #expect(ending.code == 0 && ending.errors.contains("\(reason) --allow-type tiff reads 1 of them."))
        }
        // The command has no --allow-type.
        let submit = await (try home.megaton(["submit", "in", "-o", home.output, "--dry-run"])).ending()
        #expect(submit.code == 0 && submit.errors.contains("\(reason)\n"), "\(submit.errors)")
        let json = await (try home.megaton(["plan", "in", "-o", home.output, "--json"])).ending()
        #expect(try home.summary(json)["skipped"] as? Int == 2, "\(json.output)")
    }

    @Test func aSubmissionSaysWhichFilesItLeavesOut() async throws {
        let home = try RunTests.Home()
        try home.writeImages("in/a.png")
        try home.directory.write(Data(), to: "in/d.tif")
        try await RedisServerProcess.run { (redis) async throws in
            let ending = await (try home.megaton(["submit", "in", "-o", home.output, "--redis", redis.url])).ending()
            #expect(ending.code == 0, "\(ending.errors)")
            #expect(
                ending.errors.contains(
                    "1 file in the directories was left out: its name is not that of an image (1 .tif).\n"
                ),
                "\(ending.errors)"
            )
        }
    }
}
