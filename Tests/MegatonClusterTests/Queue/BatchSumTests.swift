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

    @Test func shardsThatDoNotKnowItHaveNoPart() {
        #expect(BatchCounters.sum([.none, first, .none]) == first)
        #expect(!BatchCounters.sum([.none, .none]).isKnown)
        #expect(BatchCounters.sum([]) == .none)
    }
}
