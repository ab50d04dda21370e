import Testing

@testable import MegatonCluster

/// Counters of a batch that several shards count.
@Suite struct BatchSumTests {
    private let first = BatchCounters([
        "submitted": "10", "total": "9", "done": "7", "failed": "1", "closed": "1", "ledger": "1", "weight": "3",
        "created": "500", "outcomes": "8", "read": "8", "finished": "900", "submitter": "a7",
    ])
    private let second = BatchCounters([
        "submitted": "5", "total": "5", "done": "5", "closed": "1", "ledger": "1", "weight": "3", "created": "400",
        "outcomes": "5", "finished": "800",
    ])

    @Test func numbersOfJobsAreAddedAndSettingsAreNot() {
        let sum = BatchCounters.sum([first, .none, second])
        #expect(sum["submitted"] == 15 && sum["done"] == 12 && sum.ended == 13 && sum["outcomes"] == 13)
        #expect(sum["ledger"] == 1 && sum["weight"] == 3 && sum["closed"] == 1)
        #expect(sum["created"] == 400 && sum["finished"] == 900 && sum.isFinished)
    }

    @Test func aBatchIsOpenAsLongAsOneShardIs() {
        let open = BatchCounters(["submitted": "2", "total": "2", "done": "2", "ledger": "1"])
        let sum = BatchCounters.sum([first, open])
        #expect(sum["closed"] == 0 && !sum.isFinished && sum.ended == 10)
    }

    /// Fault: the sum of the others looked like a finished batch, and `batch wait` exited with 0.
    @Test func aBatchWithALostPartIsNotFinished() {
        let fields = ["submitted": "5", "total": "5", "done": "5", "closed": "1", "finished": "800", "shards": "3"]
        let parts = [BatchCounters(fields), BatchCounters(fields)]
        let lost = BatchCounters.sum(parts + [.none])
        #expect(!lost.isFinished && lost.lostShards == 1 && lost.lacksOnlyLostParts && lost["shards"] == 3)
        #expect(lost["submitted"] == 10 && lost.ended == 10)
        let single = BatchCounters.sum([.none, parts[0], .none])
        #expect(!single.isFinished && single.lostShards == 2 && single.lacksOnlyLostParts)
        // The others still run.
        let open = BatchCounters(["submitted": "2", "total": "2", "done": "1", "shards": "3"])
        let running = BatchCounters.sum([first, open, .none])
        #expect(running.lostShards == 1 && !running.lacksOnlyLostParts)
        // A shard that was removed, and a batch whose submitter has not begun it in all of them.
        #expect(BatchCounters.sum(parts).isFinished && BatchCounters.sum(parts).lostShards == 0)
        #expect(BatchCounters.sum([first, .none, .none]).lostShards == 0)
    }

    @Test func shardsThatDoNotKnowItHaveNoPart() {
        #expect(BatchCounters.sum([.none, first, .none]) == first)
        #expect(!BatchCounters.sum([.none, .none]).isKnown)
        #expect(BatchCounters.sum([]) == .none)
    }
}
