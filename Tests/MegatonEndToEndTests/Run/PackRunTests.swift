import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCLI
@testable import MegatonCluster

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

    /// Fault: a long list with labels was pushed as if it became packs: in large chunks, with slow hosts found late.
    @Test func jobsThatCannotBecomePacksAreSingleOnes() {
        var builder = PackBuilder(size: 64)
        let jobs = (0..<100).map { number in
            var job = Job(id: "b.\(number)", source: "https://cdn.example.org/\(number).jpg")
            job.labels = ["n": .text("\(number)")]
            return JobBuilder.BuiltJob.job(job, hasUniqueID: true)
        }
        #expect(builder.isForming && builder.pack(jobs).count == 100 && !builder.isForming && !builder.hasFormed)
    }

    @Test(arguments: [1, 3]) func packsAreFormedForEachShard(_ shards: Int) throws {
        var builder = PackBuilder(size: 64)
        let jobs = (0..<500).map { number in
            let job = Job(id: "b.\(number)", source: "https://cdn.example.org/\(number).jpg")
            return JobBuilder.BuiltJob.job(job, hasUniqueID: true)
        }
        let layout = ShardLayout(count: shards)
        let pushed = builder.pack(jobs, layout)
        #expect(pushed.reduce(0) { $0 + $1.sources } == 500 && pushed.count <= 12)
        for pack in pushed where pack.sources > 1 {
            let object = try #require(try JSONSerialization.jsonObject(with: pack.json) as? [String: Any])
            let entries = try #require(object["sources"] as? [Any])
            let sources = entries.compactMap { $0 as? String ?? ($0 as? [String: Any])?["source"] as? String }
            #expect(sources.count == pack.sources)
            let homes = Set(sources.map { ShardedSubmitter.shard(of: Job(source: $0), layout) })
            #expect(homes.count == 1 && homes.first == pack.first.map { ShardedSubmitter.shard(of: $0, layout) })
        }
    }

    @Test func aPackSizeOutsideOfItsBoundsIsAnError() async throws {
        let home = try RunTests.Home()
        let ending = try await home.run(["in", "--pack", "257"])
        #expect(ending.code == 64 && ending.errors.contains("--pack"), "\(ending.errors)")
    }
}
