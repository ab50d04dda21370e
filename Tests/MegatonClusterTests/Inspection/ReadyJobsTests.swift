import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// Numbers and ages of the jobs that can be claimed, and the hosts that are restricted.
@Suite(.timeLimit(.minutes(2))) struct ReadyJobsTests {
    private func inspector(_ fixture: QueueFixture) -> Inspector {
        Inspector(queue: fixture.queue, cache: fixture.redis)
    }

    /// Makes a ready job look as if it had been ready for longer, as only Redis' clock counts.
    private func age(_ id: String, by seconds: Int, _ fixture: QueueFixture) async throws {
        let now = try await fixture.queue.milliseconds()
        let meta = try await fixture.redis.send(["HGET", .string(fixture.keys.meta), .string(id)]).string ?? ""
        var fields = meta.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
        #expect(fields.count == 5 && fields[2].hasPrefix("@"))
        fields[2] = "@\(Int(now) - seconds * 1000)"
        try await fixture.redis.send([
            "HSET", .string(fixture.keys.meta), .string(id), .string(fields.joined(separator: "|")),
        ])
    }

    @Test func jobsAreCountedByPriorityWithTheAgeOfTheOldest() async throws {
        try await QueueFixture.run { (fixture) async throws in
            #expect(try await inspector(fixture).readyJobs().ages.isEmpty)
            try await fixture.push(
                QueueFixture.job("a"),
                QueueFixture.job("b"),
                QueueFixture.job("c", priority: .bulk)
            )
            try await fixture.admitAll(3)
            try await age("a", by: 100, fixture)
            try await age("c", by: 7, fixture)
            let ready = try await inspector(fixture).readyJobs()
            #expect(ready.counts == [.high: 0, .normal: 2, .bulk: 1])
            #expect((100..<160).contains(ready.ages[.normal] ?? 0))
            #expect((7..<67).contains(ready.ages[.bulk] ?? 0))
            #expect(ready.ages[.high] == nil)
        }
    }

    /// Every way back to the ready lists begins a wait of its own.
    @Test func aClaimKnowsHowLongTheJobWaited() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admit()
            try await age("a", by: 50, fixture)
            let first = try #require(try await fixture.claim().first)
            #expect((50..<110).contains(try #require(first.waited).inSeconds))
            _ = try await fixture.queue.release([(first.key.text, first.attempt)], worker: "w1", leaves: false)
            let second = try #require(try await fixture.claim().first)
            #expect(try #require(second.waited).inSeconds < 50)
            try await fixture.expire(second)
            _ = try await fixture.queue.sweep()
            let third = try #require(try await fixture.claim(worker: "w2").first)
            #expect(third.stalls == 1 && third.waited != nil)
        }
    }

    /// A job that a version without times has admitted is claimed like any other.
    @Test func aJobWithoutATimeHasNoAge() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admit()
            let meta = try await fixture.redis.send(["HGET", .string(fixture.keys.meta), "a"]).string ?? ""
            let old = meta.replacing(/@\d+\|/, with: "|")
            try await fixture.redis.send(["HSET", .string(fixture.keys.meta), "a", .string(old)])
            #expect(try await inspector(fixture).readyJobs() == ReadyJobs(counts: [.high: 0, .normal: 1, .bulk: 0]))
            #expect(try await fixture.claim().first?.waited == nil)
        }
    }

    @Test func onlyRestrictedHostsAreListed() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let rate = RedisArgument.string(fixture.keys.rate)
            let later = Int(try await fixture.queue.milliseconds()) + 100_000
            for (host, state) in [
                "open.test:80": "0 1 1.000000 0 5 \(later) 0 200000 0 0 0 1 timeout:+no+answer+in+10+s",
                "slow.test:80": "0 0 0.250000 0 0 0 0 200000 0 0 0 1 http_500:+a+failure+before+its+answers",
                "fine.test:80": "0 0 1.000000 0 0 0 0 200000 0 0 0 1", "odd.test:80": "what",
            ] {
                try await fixture.redis.send(["HSET", rate, .string(host), .string(state)])
            }
            let hosts = try await inspector(fixture).restrictedHosts().sorted { $0.name < $1.name }
            #expect(hosts.map(\.name) == ["open.test:80", "slow.test:80"])
            #expect(hosts.map(\.isOpen) == [true, false] && hosts.map(\.isLimited) == [false, true])
            #expect(hosts[0].failures == 5 && (1...100).contains(hosts[0].openFor))
            #expect(hosts.map(\.lastFailure) == ["timeout: no answer in 10 s", nil])
        }
    }
}
