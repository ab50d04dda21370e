import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCLI
@testable import MegatonCluster
@testable import MegatonCommandLine

/// Packs in `.jsonl` files.
@Suite(.timeLimit(.minutes(3))) struct PackLineTests {
    @Test func aLineBecomesAJobForEachSource() throws {
        let json =
            #"{"preset":"small","labels":{"a":1},"output":"file:///o/{stem}.{ext}","sources":["https://x.org/1","#
            + #"{"source":"https://x.org/2","id":"two","output":"file:///p/2.{ext}","labels":{"b":2}},{"id":"three"},5]}"#
        let line = try #require(Pack.line(Data(json.utf8), id: "b.7"))
        #expect(line.jobs.map(\.id) == ["b.7.1", "two"] && !line.hasMadeIDs)
        #expect(line.jobs.map(\.source) == ["https://x.org/1", "https://x.org/2"])
        #expect(line.jobs.map(\.output) == ["file:///o/{stem}.{ext}", "file:///p/2.{ext}"])
        #expect(line.jobs.allSatisfy { $0.preset == "small" && $0.labels?.count == 1 })
        #expect(line.refused.map(\.id) == ["b.7.3", "b.7.4"])
        #expect(line.refused.allSatisfy { $0.message.contains("sources[") })
    }

    @Test func aWrongPackIsRefusedOnceForEachSource() throws {
        let wrong = #"{"colour":"red","sources":["https://x.org/1","https://x.org/2"]}"#
        let line = try #require(Pack.line(Data(wrong.utf8), id: "b.7"))
        #expect(line.jobs.isEmpty && line.refused.map(\.id) == ["b.7.1", "b.7.2"])
        #expect(line.refused.map(\.source) == ["https://x.org/1", "https://x.org/2"])
        #expect(line.refused.allSatisfy { $0.message.contains("colour") })
        for (json, part) in [
            (#"{"sources":[]}"#, "0 sources"), (#"{"id":"p","source":"a","sources":["b"]}"#, "either"),
            (#"{"sources":7}"#, "no list"),
        ] {
            let refused = try #require(Pack.line(Data(json.utf8), id: "b.7")).refused
            #expect(refused.count == 1 && refused[0].message.contains(part), "\(refused)")
        }
        #expect(Pack.line(Data(#"{"source":"https://x.org/1","labels":{"sources":"x"}}"#.utf8), id: "b") == nil)
        #expect(Pack.line(Data("no JSON".utf8), id: "b") == nil)
    }

    /// Fault: the line was reported as no job and ran all the same, the ledger had one line for it, and the exit code
    /// was 0.
    @Test(arguments: ["0", "4"]) func aPackInAFileHasALineAndAFileForEachSource(_ size: String) async throws {
        let home = try RunTests.Home()
        for index in 0..<5 {
            _ = try home.directory.write(TestImage.quarters(width: 40 + index, height: 40), to: "in/\(index).png")
        }
        let sources = (0..<5).map { "\"file://\(home.directory.path)/in/\($0).png\"" }.joined(separator: ",")
        let lines = [
            #"{"sources":[\#(sources)]}"#,
            #"{"id":"bad","sources":["file://\#(home.directory.path)/in/missing.png",{"id":"none"}]}"#,
        ]
        let list = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "list.jsonl")
        let allowed = "\(home.directory.path)/in"
        let ending = try await home.run([list, "--pack", size, "--workers", "1", "--allow-read", allowed])
        #expect(ending.code == 2, "\(ending.errors)")
        #expect(!ending.errors.contains("is not a job"), "\(ending.errors)")
        #expect(ending.errors.contains("line 2 is refused: sources[1]"), "\(ending.errors)")
        let summary = try home.summary(ending)
        #expect(summary["jobs"] as? Int == 7)
        #expect(summary["done"] as? Int == 5 && summary["failed"] as? Int == 2, "\(ending.errors)")
        let outcomes = try home.ledger()
        #expect(outcomes.count == 7 && Set(outcomes.map(\.id)).count == 7)
        #expect(Set(outcomes.filter { $0.status == .failed }.map(\.id)) == ["bad.1", "bad.2"])
        #expect(home.outputs.count == 5)
        let plan = await (try home.megaton(["run", list, "-o", home.output, "--dry-run"])).ending()
        #expect(plan.code == 2 && plan.errors.contains("6 outputs of 6 jobs"), "\(plan.errors)")
    }

    /// Fault: a pack with an input of the run as its output replaced it.
    @Test func sourcesOfPacksAreInputs() throws {
        let json = Data(#"{"sources":["file:///a.png",{"source":"file:///b.png"}]}"#.utf8)
        let location = LineLocation(list: "list.jsonl", number: 1)
        #expect(OutputGuard.sources(of: .job(line: json, location: location)) == ["file:///a.png", "file:///b.png"])
    }
}
