import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

/// `megaton run --delete-orphans` as a user calls it.
@Suite(.timeLimit(.minutes(3))) struct OrphanTests {
    private static let deletion = ["in", "-j1", "--delete-orphans"]

    /// A home with a run of `a`, `b` and `sub/c`.
    private func home() async throws -> RunTests.Home {
        let home = try RunTests.Home()
        try home.writeImages("in/a.png", "in/b.png", "in/sub/c.png")
        let ending = try await home.run(["in", "-j1"])
        #expect(ending.code == 0 && home.outputs == Self.outputs("a", "b", "sub/c"), "\(ending.errors)")
        return home
    }

    private static func outputs(_ names: String...) -> [String] { names.map { "\($0)-256x256.jpg" } }

    private func remove(_ names: String..., in home: RunTests.Home) throws {
        for name in names { try FileManager.default.removeItem(atPath: "\(home.directory.path)/in/\(name)") }
    }

    private func orphans(_ home: RunTests.Home) async throws -> Int? {
        let ending = await (try home.megaton(["plan", "in", "-o", home.output, "--json"])).ending()
        return try home.summary(ending)["orphaned"] as? Int
    }

    private func exists(_ path: String, in home: RunTests.Home) -> Bool {
        FileManager.default.fileExists(atPath: "\(home.output)/\(path)")
    }

    @Test func outputsOfMissingInputsAreDeleted() async throws {
        let home = try await home()
        try remove("b.png", "sub/c.png", in: home)
        try home.directory.write(Data("mine".utf8), to: "out/notes.txt")
        #expect(try await orphans(home) == 2)
        let ending = try await home.run(Self.deletion + ["--yes"])
        let summary = try home.summary(ending)
        #expect(ending.code == 0 && summary["orphans_deleted"] as? Int == 2, "\(ending.errors)")
        #expect(summary["orphans_kept"] as? Int == 0)
        #expect(home.outputs == Self.outputs("a") + ["notes.txt"])
        #expect(!exists("sub", in: home), "an empty directory is removed")
        #expect(!exists("megaton-ledger.jsonl.earlier", in: home))
        #expect(try await orphans(home) == 0)
        let again = await (try home.megaton(["run", "-o", home.output, "--yes"] + Self.deletion)).ending()
        #expect(again.code == 0 && !again.errors.contains("orphan"), "\(again.errors)")
    }

    /// Fault: a run without the option forgot the orphans without a word.
    @Test func aRunWithoutTheOptionSaysThatItForgetsThem() async throws {
        let home = try await home()
        try remove("b.png", in: home)
        let run = ["run", "in", "-o", home.output, "-j1"]
        let first = await (try home.megaton(run)).ending()
        let words = "the last run made 1 output that this one does not make: its file stays"
        #expect(first.code == 0 && first.errors.contains(words), "\(first.errors)")
        #expect(exists("b-256x256.jpg", in: home) && !exists("megaton-ledger.jsonl.earlier", in: home))
        let second = await (try home.megaton(run)).ending()
        #expect(second.code == 0 && !second.errors.contains("the last run made"), "\(second.errors)")
    }

    @Test func outputsOfFormerRenditionsAreDeleted() async throws {
        let home = try await home()
        let run = ["run", "-o", home.output, "--yes", "--size", "16"] + Self.deletion
        let ending = await (try home.megaton(run)).ending()
        #expect(ending.code == 0 && ending.errors.contains("; 3 orphans deleted"), "\(ending.errors)")
        #expect(home.outputs == ["a-16x16.jpg", "b-16x16.jpg", "sub/c-16x16.jpg"])
    }

    @Test func aChangedFileIsKeptAndNamed() async throws {
        let home = try await home()
        try remove("b.png", "sub/c.png", in: home)
        // As long as before: only the digest differs.
        let path = home.output + "/b-256x256.jpg"
        var data = try Data(contentsOf: URL(fileURLWithPath: path))
        data[data.count - 3] ^= 1
        try data.write(to: URL(fileURLWithPath: path))
        let ending = try await home.run(Self.deletion + ["--yes"])
        #expect(ending.code == 0 && ending.errors.contains("\(path) is kept: it was changed."), "\(ending.errors)")
        #expect(try home.summary(ending)["orphans_kept"] as? Int == 1)
        #expect(home.outputs == Self.outputs("a", "b") && FileManager.default.contents(atPath: path) == data)
        #expect(try await orphans(home) == 0, "it is the user's file now")
    }

    @Test func linksAreNotFollowed() async throws {
        let home = try await home()
        try remove("b.png", "sub/c.png", in: home)
        let outside = home.directory.path + "/outside"
        try FileManager.default.createDirectory(atPath: outside, withIntermediateDirectories: true)
        for (name, target) in [("sub", "sub"), ("b-256x256.jpg", "b.jpg")] {
            try #require(rename("\(home.output)/\(name)", "\(outside)/\(target)") == 0)
            try #require(symlink("\(outside)/\(target)", "\(home.output)/\(name)") == 0)
        }
        let ending = try await home.run(Self.deletion + ["--yes"])
        #expect(ending.code == 0, "\(ending.errors)")
        #expect(ending.errors.contains("a symbolic link or a file is in its path"), "\(ending.errors)")
        #expect(ending.errors.contains("b-256x256.jpg is kept: it is a symbolic link."), "\(ending.errors)")
        for name in ["sub/c-256x256.jpg", "b.jpg"] {
            #expect(FileManager.default.fileExists(atPath: "\(outside)/\(name)"))
        }
    }

    /// The same file under the name of a link, through which the present run writes it.
    @Test func anOutputBehindALinkIsTheRunsOwn() async throws {
        let home = try await home()
        try #require(rename(home.directory.path + "/in/sub", home.directory.path + "/in/other") == 0)
        try #require(symlink("sub", home.output + "/other") == 0)
        let ending = try await home.run(Self.deletion + ["--yes"])
        #expect(ending.code == 0 && exists("sub/c-256x256.jpg", in: home), "\(ending.errors)")
        #expect(try home.summary(ending)["orphans_deleted"] as? Int == 0)
    }

    /// Fault: on a file system that ignores case, the earlier name of an output led to the file that the run had just
    /// made. A hard link does the same here: equal bytes are not written again, so that it stays.
    @Test func anOutputUnderAnotherCaseIsKept() async throws {
        let home = try await home()
        for (old, new) in [("a", "A"), ("b", "B")] {
            try #require(rename("\(home.directory.path)/in/\(old).png", "\(home.directory.path)/in/\(new).png") == 0)
        }
        try #require(link("\(home.output)/b-256x256.jpg", "\(home.output)/B-256x256.jpg") == 0)
        #expect(try await orphans(home) == 1)
        let ending = try await home.run(Self.deletion + ["--yes"])
        #expect(try home.summary(ending)["orphans_deleted"] as? Int == 1, "\(ending.errors)")
        #expect(exists("b-256x256.jpg", in: home) && exists("B-256x256.jpg", in: home))
        #expect(exists("A-256x256.jpg", in: home) && !exists("a-256x256.jpg", in: home), "a file of its own")
    }

    @Test func incompleteInputsKeepAll() async throws {
        let home = try await home()
        try remove("b.png", in: home)
        let list = try home.directory.write(Data("in/a.png\n{}\n".utf8), to: "list.txt")
        let ending = try await home.run([list, "-j1", "--delete-orphans", "--yes"])
        #expect(ending.code == 2, "\(ending.errors)")
        #expect(ending.errors.contains("no orphan was deleted, because 1 input could not be"), "\(ending.errors)")
        // As if a disk were missing.
        try FileManager.default.createDirectory(
            atPath: home.directory.path + "/empty",
            withIntermediateDirectories: true
        )
        let empty = try await home.run(["empty", "-j1", "--delete-orphans", "--yes"])
        #expect(empty.code == 0 && empty.errors.contains("no image was found in the inputs"), "\(empty.errors)")
        #expect(Set(home.outputs).isSuperset(of: Self.outputs("a", "b", "sub/c")))
        // The ledger of these runs lacks the others, and they are found all the same.
        let whole = try await home.run(Self.deletion + ["--yes"])
        #expect(whole.code == 0 && !exists("b-256x256.jpg", in: home), "\(whole.errors)")
    }

    /// An input that cannot be read still has its output.
    @Test func outputsOfFailedJobsAreKept() async throws {
        let home = try await home()
        try home.directory.write(Data("no image".utf8), to: "in/b.png")
        try remove("sub/c.png", in: home)
        let ending = try await home.run(Self.deletion + ["--yes"])
        #expect(ending.code == 2, "\(ending.errors)")
        #expect(home.outputs == Self.outputs("a", "b"))
    }

    /// Fault: after a change of the size, a run whose origin was away deleted all thumbnails that were left.
    @Test func failedJobsKeepOutputsOfOtherSizes() async throws {
        let home = try await home()
        try home.directory.write(Data("no image".utf8), to: "in/b.png")
        let run = ["run", "-o", home.output, "--yes", "--size", "16"] + Self.deletion
        let ending = await (try home.megaton(run)).ending()
        #expect(ending.code == 2 && ending.errors.contains("; 2 orphans deleted"), "\(ending.errors)")
        #expect(exists("b-256x256.jpg", in: home) && !exists("a-256x256.jpg", in: home))
        // It goes once the job is done.
        try home.writeImages("in/b.png")
        let again = await (try home.megaton(run)).ending()
        #expect(again.code == 0 && again.errors.contains("; 1 orphan deleted"), "\(again.errors)")
        #expect(home.outputs == ["a-16x16.jpg", "b-16x16.jpg", "sub/c-16x16.jpg"])
    }

    /// Fault: of several inputs, one on a disk that was not mounted lost its outputs.
    @Test func anEmptyInputAmongOthersKeepsAll() async throws {
        let home = try await home()
        try home.writeImages("other/d.png")
        let both = ["in", "other", "-j1", "--delete-orphans", "--yes"]
        #expect(try await home.run(both).code == 0)
        try FileManager.default.removeItem(atPath: home.directory.path + "/other/d.png")
        let ending = try await home.run(both)
        #expect(ending.code == 0 && ending.errors.contains("no image was found in other, as if"), "\(ending.errors)")
        #expect(exists("d-256x256.jpg", in: home))
    }

    /// Fault: a list of jobs whose export had failed counted as one without images.
    @Test func anEmptyListOfJobsAmongOtherInputsKeepsAll() async throws {
        let home = try await home()
        try home.writeImages("other/d.png")
        let job = #"{"id":"d","source":"file://\#(home.directory.path)/other/d.png"}"#
        let list = try home.directory.write(Data((job + "\n").utf8), to: "jobs.jsonl")
        let run = ["in", "--jobs-from", list, "-j1", "--delete-orphans", "--yes"]
        let first = try await home.run(run)
        #expect(first.code == 0 && home.outputs.contains { $0.hasSuffix("/d-256x256.jpg") }, "\(first.errors)")
        try home.directory.write(Data(), to: "jobs.jsonl")
        let ending = try await home.run(run)
        #expect(ending.code == 0 && ending.errors.contains("no image was found in \(list), as if"), "\(ending.errors)")
        #expect(home.outputs.contains { $0.hasSuffix("/d-256x256.jpg") })
    }

    /// Fault: a directory that had moved to another disk, with a link in its place, lost its outputs without a word.
    @Test func outputsOfADirectoryBehindALinkAreKept() async throws {
        let home = try await home()
        let (sub, moved) = (home.directory.path + "/in/sub", home.directory.path + "/moved")
        try #require(rename(sub, moved) == 0)
        try #require(symlink(moved, sub) == 0)
        try remove("b.png", in: home)
        let ending = try await home.run(Self.deletion + ["--yes"])
        #expect(ending.code == 0 && ending.errors.contains("1 link to a directory not followed"), "\(ending.errors)")
        #expect(home.outputs == Self.outputs("a", "sub/c"), "only the output of the missing image is gone")
    }

    /// Fault: so did one on a disk that was missing.
    @Test func outputsOfADirectoryBehindADanglingLinkAreKept() async throws {
        let home = try await home()
        let (sub, moved) = (home.directory.path + "/in/sub", home.directory.path + "/moved")
        try #require(rename(sub, moved) == 0)
        try #require(symlink(home.directory.path + "/missing", sub) == 0)
        try remove("b.png", in: home)
        let ending = try await home.run(Self.deletion + ["--yes"])
        #expect(ending.code == 0, "\(ending.errors)")
        #expect(home.outputs == Self.outputs("a", "sub/c"), "only the output of the missing image is gone")
    }

    /// Fault: with a directory above as `--output`, a ledger of other images made all of its outputs orphans.
    @Test func outputsInADirectoryThatTheRunDoesNotUseAreKept() async throws {
        let home = try await home()
        try home.writeImages("other/d.png")
        let ledger = home.output + "/megaton-ledger.jsonl"
        let run = ["run", "other", "-o", home.directory.path, "--ledger", ledger, "-j1", "--delete-orphans", "--yes"]
        let ending = await (try home.megaton(run)).ending()
        #expect(ending.code == 0 && ending.errors.contains("all earlier outputs are in out/"), "\(ending.errors)")
        #expect(Set(Self.outputs("a", "b", "sub/c")).isSubset(of: home.outputs))
        // Fault: the third run took the saved lines for those of its own output directory.
        for _ in 0..<3 {
            let again = await (try home.megaton(run)).ending()
            #expect(again.code == 0, "\(again.errors)")
            #expect(Set(Self.outputs("a", "b", "sub/c")).isSubset(of: home.outputs), "also in later runs")
        }
    }

    /// Fault: the line of a duplicate counted as a failure, and its source as one whose outputs stay.
    @Test func aDuplicateIsNoFailure() async throws {
        let home = try await home()
        let list = try home.directory.write(Data("in/a.png\nin/a.png\n".utf8), to: "list.txt")
        let run = [list, "-j1", "--deduplicate", "--delete-orphans", "--yes", "--size", "16"]
        let ending = try await home.run(run)
        #expect(ending.code == 0, "\(ending.errors)")
        #expect(try home.summary(ending)["orphans_deleted"] as? Int == 3, "\(ending.errors)")
        #expect(!exists("megaton-ledger.jsonl.earlier", in: home))
    }

    @Test func aFileOfTheUserIsNotReplacedByTheSavedLines() async throws {
        let home = try await home()
        try home.directory.write(Data("mine\n".utf8), to: "out/megaton-ledger.jsonl.earlier")
        let ending = try await home.run(Self.deletion + ["--yes"])
        #expect(ending.code == 64 && ending.errors.contains("has something else"), "\(ending.errors)")
        #expect(exists("megaton-ledger.jsonl.earlier", in: home))
    }

    /// An input that links to the output of another image.
    @Test func theTargetOfAnInputIsKept() async throws {
        let home = try await home()
        try remove("b.png", in: home)
        let link = home.directory.path + "/in/picked.jpg"
        try #require(symlink(home.output + "/b-256x256.jpg", link) == 0)
        let ending = try await home.run(Self.deletion + ["--yes"])
        #expect(ending.code == 0 && exists("b-256x256.jpg", in: home), "\(ending.errors)")
    }

    /// A killed run has replaced the ledger, and left the lines of the earlier run beside it.
    @Test func aRepetitionDeletesTheRest() async throws {
        let home = try await home()
        try remove("b.png", "sub/c.png", in: home)
        let ledger = home.output + "/megaton-ledger.jsonl"
        try #require(rename(ledger, home.output + "/megaton-ledger.jsonl.earlier") == 0)
        try home.directory.write(Data(), to: "out/megaton-ledger.jsonl")
        try FileManager.default.removeItem(atPath: home.output + "/b-256x256.jpg")
        #expect(try await orphans(home) == 1)
        let ending = try await home.run(Self.deletion + ["--yes"])
        #expect(try home.summary(ending)["orphans_deleted"] as? Int == 1, "\(ending.errors)")
        #expect(home.outputs == Self.outputs("a"))
    }

    @Test(arguments: [("n", true), ("", true), ("y", false)])
    func theUserIsAsked(_ answer: String, _ stays: Bool) async throws {
        let home = try await home()
        try remove("b.png", in: home)
        let terminal = try TestTerminal()
        terminal.type(answer)
        let ending = try await terminal.megaton(["run", "-o", home.output] + Self.deletion, home)
        let text = terminal.text
        #expect(ending.code == 0 && text.contains("delete 1 file ("), "\(text)")
        #expect(text.contains("b-256x256.jpg? [y/N]"), "\(text)")
        #expect(exists("b-256x256.jpg", in: home) == stays)
        #expect(try await orphans(home) == (stays ? 1 : 0))
    }

    private static let contradictions: [([String], String)] = [
        ([], "--yes to confirm"), (["--yes", "--ledger", "-"], "needs a ledger that is a file"),
        (["--yes", "--output", "tar:x"], "does not go with --output tar:DIR"),
    ]

    @Test(arguments: contradictions)
    func contradictionsAreRefused(_ options: [String], _ words: String) async throws {
        let home = try await home()
        try remove("b.png", in: home)
        let output: [String] = options.contains("--output") ? [] : ["-o", home.output]
        let ending = await (try home.megaton(["run"] + output + Self.deletion + options)).ending()
        #expect(ending.code == 64 && ending.errors.contains(words), "\(ending.errors)")
        #expect(home.outputs == Self.outputs("a", "b", "sub/c"))
        let ledger = home.output + "/megaton-ledger.jsonl"
        let retry = await (try home.megaton(["run", "--retry-failed", ledger, "--delete-orphans", "-y"])).ending()
        #expect(retry.code == 64 && retry.errors.contains("does not go with --retry-failed"), "\(retry.errors)")
        let alone = await (try home.megaton(["run", "in", "-o", home.output, "--yes"])).ending()
        #expect(alone.code == 64 && alone.errors.contains("no effect without --delete-orphans"), "\(alone.errors)")
    }

    @Test func theLedgerOfAnotherDirectoryIsRefused() async throws {
        let home = try await home()
        let ledger = home.output + "/megaton-ledger.jsonl"
        let other = home.directory.path + "/other"
        let run = ["run", "-o", other, "--ledger", ledger, "--yes"] + Self.deletion
        let ending = await (try home.megaton(run)).ending()
        #expect(ending.code == 64 && ending.errors.contains("has an output elsewhere"), "\(ending.errors)")
        #expect(try home.ledger().count == 3 && home.outputs == Self.outputs("a", "b", "sub/c"))
        // Fault: lines that an earlier run had left were reported as those of the ledger, which has none of them.
        try #require(rename(ledger, ledger + ".earlier") == 0)
        let saved = await (try home.megaton(run)).ending()
        #expect(saved.code == 64 && saved.errors.contains("\(ledger).earlier, which an earlier run has left"))
    }
}
