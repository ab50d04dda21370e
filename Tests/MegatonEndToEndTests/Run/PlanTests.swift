import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonTestSupport
import Testing

@testable import MegatonCLI

/// `megaton plan` as a user calls it.
@Suite(.timeLimit(.minutes(3))) struct PlanTests {
    private func plan(_ home: RunTests.Home, _ arguments: [String]) async throws -> [String: Any] {
        let ending = await (try home.megaton(["plan", "in", "-o", home.output, "--json"] + arguments)).ending()
        #expect(ending.code == 0, "\(ending.errors)")
        return try home.summary(ending)
    }

    /// Numbers of new, kept, replaced and orphaned outputs; -1 if one is not known.
    private func counts(_ plan: [String: Any]) -> [Int] {
        ["new", "kept", "replaced", "orphaned"].map { plan[$0] as? Int ?? -1 }
    }

    private static let refreshes: [([String], [Int])] = [([], [1, 1, 0]), (["--refresh"], [1, 0, 1])]

    @Test func aFirstPlanWritesNothing() async throws {
        let home = try RunTests.Home()
        try home.writeImages("in/a.png", "in/b.png")
        let before = home.directory.files
        let plan = try await plan(home, [])
        #expect(counts(plan) == [2, 0, 0, -1] && plan["jobs"] as? Int == 2, "\(plan)")
        #expect(plan["sources_to_read"] as? Int == 2 && plan["estimate"] == nil && plan["ledger"] == nil, "\(plan)")
        let text = await (try home.megaton(["plan", "in", "-o", home.output])).ending()
        #expect(text.code == 0 && text.output.hasPrefix("2 jobs, 2 outputs beneath \(home.output)\n"), "\(text.output)")
        #expect(text.output.contains("no earlier ledger, no estimate"), "\(text.output)")
        #expect(home.directory.files == before, "neither the output directory nor a cache was made")
    }

    /// Fault: rows that occur twice counted as two new outputs, and were listed twice.
    @Test func anOutputOfTwoJobsCountsOnce() throws {
        var comparison = PlanComparison(nil, output: "/no/such")
        let output = "file:///no/such/a-{name}.{ext}"
        let job = Job(id: "a", source: "https://h/a.png", renditions: [Rendition(width: 8)], output: output)
        var shown = 0
        for _ in 0..<2 {
            let goesOn = try comparison.add(job) { _, _, _ in
                shown += 1
                return true
            }
            #expect(goesOn)
        }
        let plan = comparison.plan
        #expect((plan.jobs, plan.outputs, plan.new, plan.repeated, shown) == (2, 1, 1, 1, 1))
        #expect(plan.lines("/no/such").contains { $0.hasPrefix("  repeated  1 output:") })
    }

    @Test func anEmptyListHasNoOrphans() {
        var plan = Plan()
        #expect(plan.lines(nil).contains("  orphaned  none"))
        plan.ledger = "/l.jsonl"
        #expect(plan.lines(nil).contains("  orphaned  not known, as no image was found in the inputs"))
        (plan.jobs, plan.ledger) = (1, nil)
        #expect(plan.lines(nil).contains("  orphaned  not known, as no earlier ledger is compared"))
    }

    /// Fault: a ledger of failed jobs counted as none.
    @Test func aLedgerWithoutOutputsIsALedger() async throws {
        let home = try RunTests.Home()
        try home.directory.write(Data("no image".utf8), to: "in/a.png")
        #expect(try await home.run(["in", "-j1"]).code == 2)
        let plan = try await plan(home, [])
        #expect(counts(plan) == [1, 0, 0, 0], "\(plan)")
        let text = await (try home.megaton(["plan", "in", "-o", home.output])).ending()
        #expect(text.output.contains("the earlier ledger has no finished job, no estimate"), "\(text.output)")
    }

    /// Fault: the run leaves an equal file as it is, so that each later plan said that its source had changed.
    @Test func aSourceThatWasOnlyTouchedIsKeptOnceARunHasSeenIt() async throws {
        let home = try RunTests.Home()
        try home.writeImages("in/a.png")
        #expect(try await home.run(["in", "--size", "16", "-j1"]).code == 0)
        let source = home.directory.path + "/in/a.png"
        try FileManager.default.setAttributes([.modificationDate: Date()], ofItemAtPath: source)
        #expect(counts(try await plan(home, ["--size", "16"])) == [0, 0, 1, 0])
        #expect(try await home.run(["in", "--size", "16", "-j1"]).code == 0)
        #expect(counts(try await plan(home, ["--size", "16"])) == [0, 1, 0, 0])
    }

    @Test func outputsHaveTheirCategories() async throws {
        let home = try RunTests.Home()
        try home.writeImages("in/same.png", "in/source.png", "in/file.png", "in/gone.png")
        let first = try await home.run(["in", "--size", "16", "-j1"])
        #expect(first.code == 0, "\(first.errors)")
        let unchanged = try await plan(home, ["--size", "16"])
        #expect(counts(unchanged) == [0, 4, 0, 0], "\(unchanged)")
        try home.writeImages("in/new.png")
        try home.directory.write(TestImage.quarters(width: 40, height: 40), to: "in/source.png")
        try home.directory.write(TestImage.jpeg(width: 16, height: 12), to: "out/file-16x16.jpg")
        try FileManager.default.removeItem(atPath: home.directory.path + "/in/gone.png")
        let ledger = try String(contentsOfFile: home.output + "/megaton-ledger.jsonl", encoding: .utf8)
        let second = try await plan(home, ["--size", "16"])
        #expect(counts(second) == [1, 1, 2, 1], "\(second)")
        #expect(second["replaced_because"] as? [String: Int] == ["source": 1, "file": 1], "\(second)")
        let estimate = try #require(second["estimate"] as? [String: Any])
        #expect(estimate["lines"] as? Int == 4)
        let outcomes = try home.ledger()
        let bytes = outcomes.flatMap(\.outputs).reduce(0) { $0 + $1.bytes }
        let expected = Int((Double(bytes) * 3 / 4).rounded())
        #expect(estimate["output_bytes"] as? Int == expected, "three outputs of the mean size: \(estimate)")
        let times = outcomes.compactMap(\.times).reduce(0) { $0 + $1.rendering }
        let seconds = try #require(estimate["render_seconds"] as? Double)
        #expect(abs(seconds - times * 3 / 4) < 0.002, "\(estimate)")
        let gone = try #require(outcomes.flatMap(\.outputs).first { $0.path?.hasSuffix("gone-16x16.jpg") == true })
        #expect(second["orphaned_bytes"] as? Int == gone.bytes)
        let text = await (try home.megaton(["plan", "in", "-o", home.output, "--size", "16", "--all"])).ending()
        for line in [
            "new       \(home.directory.path)/in/new.png -> \(home.output)/new-16x16.jpg",
            "kept      \(home.directory.path)/in/same.png -> \(home.output)/same-16x16.jpg",
            "orphaned  \(home.output)/gone-16x16.jpg",
        ] { #expect(text.output.contains(line + "\n"), "\(text.output)") }
        let limited = await
            (try home.megaton(["plan", "in", "-o", home.output, "--size", "16", "--all", "--limit", "2"])).ending()
        #expect(limited.errors.contains("3 more lines"), "\(limited.errors)")
        #expect(try String(contentsOfFile: home.output + "/megaton-ledger.jsonl", encoding: .utf8) == ledger)
    }

    /// Fault: the plan promised to replace what the run refuses to.
    @Test func filesThatMustStayBlockOutputs() async throws {
        let home = try RunTests.Home()
        try home.writeImages("in/text.png", "in/link.png", "in/folder.png", "in/image.png")
        try home.directory.write(Data("mine".utf8), to: "out/text-16x16.jpg")
        try home.directory.write(TestImage.jpeg(width: 16, height: 12), to: "out/image-16x16.jpg")
        try home.directory.write(Data(), to: "out/folder-16x16.jpg/x")
        let link = home.output + "/link-16x16.jpg"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "/etc/hostname")
        func counts(_ options: [String]) async throws -> [Int?] {
            let plan = try await plan(home, ["--size", "16"] + options)
            return ["replaced", "blocked"].map { plan[$0] as? Int }
        }
        #expect(try await counts([]) == [1, 3])
        #expect(try await counts(["--overwrite"]) == [3, 1], "a directory is never replaced")
        let text = await (try home.megaton(["plan", "in", "-o", home.output, "--size", "16"])).ending()
        #expect(text.output.contains(": a file that must stay is in its place"), "\(text.output)")
        let run = try await home.run(["in", "--size", "16"])
        #expect(run.code == 2)
        #expect(try home.ledger().filter { $0.status == .failed }.count == 3)
    }

    /// A quality changes neither the name nor the size of an image.
    @Test func otherOptionsOfARenditionReplaceIt() async throws {
        let home = try RunTests.Home()
        try home.writeImages("in/a.png")
        #expect(try await home.run(["in", "-j1"]).code == 0)
        let other = try await plan(home, ["--quality", "50"])
        #expect(counts(other) == [0, 0, 1, 0] && other["replaced_because"] as? [String: Int] == ["options": 1])
        let force = try await plan(home, ["--force"])
        #expect(force["replaced_because"] as? [String: Int] == ["force": 1], "\(force)")
        let sizes = try await plan(home, ["--size", "16"])
        #expect(counts(sizes) == [1, 0, 0, 1], "\(sizes)")
    }

    /// Fault: the plan after a run from the cache said that nothing was rendered, as if a ledger with times was there.
    @Test func anEstimateWithoutTimesSaysWhy() {
        var estimate = Plan.Estimate(lines: 3, outputBytes: 2048, fetchSeconds: 1)
        let reason = "; CPU time unknown, as the last run took its outputs from the cache"
        #expect(estimate.text == "2.0 KiB of outputs, 1.0 s of fetches, by 3 lines of the last ledger\(reason)")
        estimate.renderSeconds = 2
        #expect(estimate.text.contains("2.0 s of CPU time") && !estimate.text.contains("unknown"), "\(estimate.text)")
        #expect(Plan.Estimate(lines: 1).text.hasPrefix("no sizes, by 1 line of the last ledger;"))
    }

    @Test func originsAreNotAsked() async throws {
        let home = try RunTests.Home()
        let image = TestImage.quarters(width: 32, height: 32)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let run = [origin.url("/a.png").absoluteString, "--allow-private"]
            #expect(try await home.run(run + ["-j1"]).code == 0)
            let list = run + [origin.url("/b.png").absoluteString]
            for (extra, expected) in Self.refreshes {
                let ending = await (try home.megaton(["plan", "-o", home.output, "--json"] + list + extra)).ending()
                let plan = try home.summary(ending)
                #expect(Array(counts(plan).prefix(3)) == expected, "\(plan)")
                #expect(plan["sources_to_fetch"] as? Int == expected[0] + expected[2])
                let estimate = try #require(plan["estimate"] as? [String: Any])
                #expect(estimate["source_bytes"] as? Int == image.count * (expected[0] + expected[2]), "\(estimate)")
                #expect(estimate["fetch_seconds"] != nil, "\(estimate)")
            }
            #expect(origin.total == 1)
        }
    }

    @Test func aPlanIsThatOfTheDryRun() async throws {
        let home = try RunTests.Home()
        try home.writeImages("in/a.png", "in/b.png")
        #expect(try await home.run(["in/a.png", "-j1"]).code == 0)
        let plan = await (try home.megaton(["plan", "in", "-o", home.output, "--json"])).ending()
        let dry = try await home.run(["in", "--dry-run"])
        #expect(plan.code == 0 && dry.code == 0 && plan.output == dry.output, "\(dry.errors)")
        let list = await (try home.megaton(["run", "in", "-o", home.output, "--dry-run"])).ending()
        #expect(list.errors.contains("2 outputs of 2 jobs would be made, 1 of them where a file exists already"))
        #expect(list.errors.contains("  kept      1 output"), "\(list.errors)")
    }

    @Test func unknownOutputsAreNoWorkThatIsDone() {
        var plan = Plan()
        (plan.jobs, plan.outputs, plan.unknown, plan.renders, plan.sourcesToRead) = (3, 3, 2, 1, 1)
        let work = "from sources of which 0 to be fetched, 1 to be read; up to 2 more, which are unknown"
        #expect(plan.workLine == "  work      1 output to be rendered, \(work)")
    }

    /// Fault: the plan said that the paths were unknown, although a dry run prints them.
    @Test func objectsAreNotLookedAt() async throws {
        let home = try RunTests.Home()
        try home.writeImages("in/a.png")
        let plan = await (try home.megaton(["plan", "in", "-o", "s3://thumbs/x/"])).ending()
        #expect(plan.code == 0, "\(plan.errors)")
        #expect(plan.output.contains("1 output: objects of the store are not looked at"), "\(plan.output)")
        #expect(!plan.output.contains("are known when they are made"), "\(plan.output)")
        // Fault: the work was 0 outputs, as if there was nothing to do.
        #expect(plan.output.contains("  work      not known: up to 1 output to be rendered\n"), "\(plan.output)")
        #expect(plan.output.contains("  estimate  none, as all outputs are unknown\n"), "\(plan.output)")
        #expect(!plan.output.contains("  new ") && !plan.output.contains("0 outputs"), "\(plan.output)")
    }

    @Test(arguments: [
        (["in"], "--output is missing"), (["in", "-o", "tar:x", "--force"], "--force does not go with"),
        (["in", "-o", "x", "--limit", "0"], "--limit must be 1 to 1000000"),
        (["in", "-o", "x", "--alll"], "megaton plan has no option --alll. Did you mean --all?"),
        (["missing", "-o", "x"], "missing: no such file or directory"),
    ])
    func wrongUsageIsReported(_ arguments: [String], _ words: String) async throws {
        let home = try RunTests.Home()
        try home.writeImages("in/a.png")
        let ending = await (try home.megaton(["plan"] + arguments)).ending()
        #expect(ending.code == 64 && ending.errors.contains(words), "\(ending.errors)")
    }
}
