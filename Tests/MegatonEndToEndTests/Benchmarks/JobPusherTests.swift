import Foundation
import MegatonCluster
import Testing

@testable import MegatonBenchmarks

/// The jobs that benchmarks push.
@Suite struct JobPusherTests {
    private struct Pushed: Decodable {
        var id: String
        var source: String?
        var sources: [String]?
    }

    private func decoded(_ texts: [String]) throws -> [Pushed] {
        try texts.map { try JSONDecoder().decode(Pushed.self, from: Data($0.utf8)) }
    }

    private func layout(_ count: Int) -> ShardLayout {
        var layout = ShardLayout()
        layout.count = count
        return layout
    }

    @Test func aJobHasItsSizeAndTheTimeOfItsPush() throws {
        let texts = JobPusher.texts(0..<100, layout(1), bytes: 200, pack: 1, isTimed: true)
        #expect(Array(texts.keys) == [0])
        let all = try #require(texts[0])
        #expect(all.count == 100 && all.allSatisfy { $0.utf8.count == 200 })
        let jobs = try decoded(all)
        #expect(Set(jobs.map(\.id)).count == 100 && Set(jobs.compactMap(\.source)).count == 100)
        #expect(jobs.allSatisfy { NoOpJob.pushed($0.id) != nil })
        let untimed = try decoded(JobPusher.texts(0..<3, layout(1), bytes: 200, pack: 1, isTimed: false)[0] ?? [])
        #expect(untimed.count == 3 && untimed.allSatisfy { NoOpJob.pushed($0.id) == nil })
    }

    // Equal sources have the same shard: with one source for all jobs, the other shards would have had none.
    @Test func jobsAreInTheShardsOfTheirSources() throws {
        let layout = layout(4)
        let texts = JobPusher.texts(0..<4000, layout, bytes: 150, pack: 1, isTimed: false)
        #expect(texts.count == 4 && texts.values.reduce(0) { $0 + $1.count } == 4000)
        for (shard, texts) in texts {
            #expect(texts.count > 800 && texts.count < 1200)
            for job in try decoded(texts) {
                let source = try #require(job.source)
                #expect(ShardedSubmitter.shard(of: Job(kind: .fetch, source: source), layout) == shard)
            }
        }
    }

    @Test func aPackIsForOneShard() throws {
        let layout = layout(3)
        let texts = JobPusher.texts(0..<3000, layout, bytes: 100, pack: 256, isTimed: false)
        var sources: Set<String> = []
        for (shard, texts) in texts {
            let packs = try decoded(texts).map { $0.sources ?? [] }
            #expect(packs.dropLast().allSatisfy { $0.count == 256 } && packs.allSatisfy { $0.count <= 256 })
            for source in packs.joined() {
                #expect(ShardedSubmitter.shard(of: Job(kind: .fetch, source: source), layout) == shard)
                sources.insert(source)
            }
        }
        #expect(sources.count == 3000)
    }
}
