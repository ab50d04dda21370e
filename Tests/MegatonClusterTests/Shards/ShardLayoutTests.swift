import Logging
import MegatonRedis
import NIOPosix
import Testing

@testable import MegatonCluster

@Suite struct ShardLayoutTests {
    @Test func aCopyIsReadAsItWasWritten() throws {
        let layout = ShardLayout(count: 4, id: "5f3a")
        #expect(layout.text(of: 3) == "3/4 5f3a")
        let copy = try #require(ShardLayout.parse("3/4 5f3a"))
        #expect(copy.shard == 3 && copy.layout == layout)
        let changing = ShardLayout(count: 1, target: ShardLayout.Target(count: 8, id: "77"))
        #expect(changing.text(of: 0) == "0/1 - 8 77")
        #expect(ShardLayout.parse("0/1 - 8 77")?.layout == changing)
    }

    @Test(arguments: [
        "", "0", "0/4", "4/4 a", "-1/4 a", "0/0 a", "0/129 a", "0/4  ", "0/4 a 8", "0/4 a x b", "0/4 a 0 b",
        "0/4 a 8 b c", "a/4 b",
        "0/99999999999999999999 a", "0/4/8 a",
    ])
    func anotherTextIsNone(_ text: String) {
        #expect(ShardLayout.parse(text) == nil)
    }

    /// The shard of a text is a part of the protocol: all versions must agree.
    @Test func theShardOfATextStays() {
        #expect(ShardLayout.hash("") == 0xefd0_1f60_ba99_2926)
        #expect(ShardLayout.hash("a") == 0x82a2_a958_a9be_ce5b)
        #expect(ShardLayout(count: 1).shard(of: "anything") == 0)
    }

    @Test func sourcesSpreadEvenly() {
        for count in [2, 3, 4, 16] {
            let layout = ShardLayout(count: count, id: "a")
            var jobs = [Int](repeating: 0, count: count)
            for number in 0..<16_000 {
                let job = Job(source: "https://cdn.example.org/images/\(number).jpg")
                jobs[ShardedSubmitter.shard(of: job, layout)] += 1
            }
            let share = 16_000 / count
            #expect(jobs.allSatisfy { abs($0 - share) < share / 5 }, "\(count): \(jobs)")
        }
    }

    @Test func equalSourcesAndEqualKeysMeet() {
        let layout = ShardLayout(count: 16, id: "a")
        var (first, second) = (Job(id: "1", source: "https://a.org/1.jpg"), Job(id: "2", source: "https://a.org/1.jpg"))
        second.batch = "other"
        second.priority = .high
        #expect(ShardedSubmitter.shard(of: first, layout) == ShardedSubmitter.shard(of: second, layout))
        second.source = "https://b.org/2.jpg"
        (first.idempotencyKey, second.idempotencyKey) = ("once", "once")
        #expect(ShardedSubmitter.shard(of: first, layout) == ShardedSubmitter.shard(of: second, layout))
    }

    @Test func serversOfSeveralShardsAreNamedOnce() throws {
        let servers = try ["redis://a", "redis://b"].map { url in try RedisConfiguration(url: url) }
        let address = QueueAddress(servers, queue: "q")
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let shards = (0..<5).map { number in
            address.shard(number, role: "test", group: MultiThreadedEventLoopGroup.singleton, logger: logger)
        }
        defer { for shard in shards { shard.close() } }
        #expect(shards.servers.map(\.configuration) == servers)
    }

    @Test func theKeysOfAShardHaveItsNumber() {
        #expect(QueueKeys(queue: "q").jobs == "megaton:{q}:jobs")
        #expect(QueueKeys(queue: "q", shard: 0) == QueueKeys(queue: "q"))
        #expect(QueueKeys(queue: "q", shard: 3).jobs == "megaton:{q:3}:jobs")
        #expect(QueueKeys(queue: "q", shard: 3).layout == "megaton:{q:3}:2:shards")
    }
}
