import Foundation
import MegatonPipeline
import MegatonRedis
import NIOCore
import Testing

@testable import MegatonCluster

/// The size of a claim: limited by slots, and by bytes.
@Suite(.timeLimit(.minutes(2))) struct ClaimShareTests {
    private func register(_ worker: String, places: Int, _ fixture: QueueFixture) async throws {
        let info = #"{"concurrency":\#(places),"renewal":5}"#
        _ = try await fixture.queue.renew([], worker: worker, lease: .seconds(60), info: info)
    }

    private func admit(_ count: Int, _ fixture: QueueFixture) async throws {
        for id in 0..<count { try await fixture.push(QueueFixture.job("\(id)")) }
        try await fixture.admitAll(count)
    }

    private func take(
        _ free: Int,
        of places: Int,
        ignoresShare: Bool = false,
        worker: String,
        _ fixture: QueueFixture
    ) async throws -> JobQueue.Claim {
        try await fixture.queue.claim(
            free,
            running: places - free,
            places: places,
            ignoresShare: ignoresShare,
            suspects: .one,
            worker: worker,
            lease: .seconds(60),
            validUntil: .now + .seconds(60)
        )
    }

    /// Fault: the share was counted in processes, so that twenty small workers left a large one with an eighth of its
    /// slots.
    @Test func aLargeWorkerBesideSmallOnesFillsItsPlaces() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await register("large", places: 32, fixture)
            for number in 0..<12 { try await register("small-\(number)", places: 1, fixture) }
            try await admit(64, fixture)
            #expect(try await take(32, of: 32, worker: "large", fixture).jobs.count == 32)
            #expect(try await take(1, of: 1, worker: "small-0", fixture).jobs.count == 1)
        }
    }

    @Test func fewerJobsThanPlacesAreSharedByPlaces() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await register("w1", places: 30, fixture)
            try await register("w2", places: 10, fixture)
            try await admit(8, fixture)
            let first = try await take(30, of: 30, worker: "w1", fixture)
            #expect(first.jobs.count == 6 && first.left == 2)
            let again = try await take(24, of: 30, worker: "w1", fixture)
            #expect(again.jobs.isEmpty && again.left == 2)
            #expect(try await take(10, of: 10, worker: "w2", fixture).jobs.count == 2)
        }
    }

    @Test func aWorkerClaimsTheJobsThatOthersLeave() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await register("w1", places: 4, fixture)
            try await register("silent", places: 4, fixture)
            try await admit(4, fixture)
            #expect(try await take(4, of: 4, worker: "w1", fixture).jobs.count == 2)
            let rest = try await take(2, of: 4, ignoresShare: true, worker: "w1", fixture)
            #expect(rest.jobs.count == 2 && rest.left == 0)
        }
    }

    /// Fault: 120 jobs of 738 KB went into one reply, larger than a connection reads, again and again.
    @Test func aReplyIsBoundedInBytesAndTheOrderIsKept() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let filler = String(repeating: "A", count: 400_000)
            let priorities: [Job.Priority] = [.bulk, .normal, .normal, .normal, .high]
            for (number, priority) in priorities.enumerated() {
                let job = Job(id: "\(number)", source: "data:image/png;base64,\(filler)", priority: priority)
                try await fixture.push(job.json())
            }
            // Staging is bounded too.
            while try await fixture.count("HLEN", fixture.keys.body) < priorities.count { try await fixture.admit() }
            var ids: [[String]] = []
            while ids.joined().count < priorities.count {
                let jobs = try await take(128, of: 128, worker: "w1", fixture).jobs
                #expect(jobs.reduce(0) { $0 + $1.json.count } <= 1024 * 1024 && !jobs.isEmpty)
                ids.append(jobs.map(\.id))
            }
            #expect(ids.joined().map { $0 } == ["4", "1", "2", "3", "0"])
        }
    }

    @Test func aJobThatNoConnectionAcceptsIsHandedOutWithoutItsText() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(2, fixture)
            let text = String(repeating: " ", count: 17 << 20)
            try await fixture.redis.send(["HSET", .string(fixture.keys.body), "0", .string(text)])
            let jobs = try await fixture.claim(2)
            #expect(jobs.map(\.id) == ["0", "1"])
            #expect(jobs[0].excessSize == 17 << 20 && jobs[0].json.isEmpty && jobs[1].excessSize == 0)
        }
    }
}
