import Foundation
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// The public lists `jobs`, `jobs:high` and `jobs:bulk`, on a real Redis.
@Suite(.timeLimit(.minutes(2))) struct PublicIntakeTests {
    private func push(_ json: Data, to priority: Job.Priority, _ fixture: QueueFixture) async throws {
        let list = RedisArgument.string(fixture.keys.jobs(priority))
        try await fixture.redis.send(["LPUSH", list, .buffer(ByteBuffer(bytes: json))])
    }

    @Test func theListsHavePublicNames() {
        let keys = QueueKeys(queue: "default")
        #expect(
            Job.Priority.allCases.map(keys.jobs)
                == ["high", "normal", "bulk"].map { name in
                    name == "normal" ? "megaton:{default}:jobs" : "megaton:{default}:jobs:\(name)"
                }
        )
        // A batch may be called "high".
        #expect(keys.jobs(batch: "high") == "megaton:{default}:2:jobs:high")
    }

    @Test func aListDecidesThePriorityOfJobsThatAskForNone() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await push(QueueFixture.job("a"), to: .bulk, fixture)
            try await push(QueueFixture.job("b", priority: .high), to: .bulk, fixture)
            try await push(QueueFixture.job("c"), to: .high, fixture)
            try await push(QueueFixture.job("d"), to: .normal, fixture)
            try await fixture.admitAll(4)
            for (priority, ids) in [(Job.Priority.high, ["b", "c"]), (.normal, ["d"]), (.bulk, ["a"])] {
                let ready = try await fixture.redis.send(["LRANGE", .string(fixture.keys.ready(priority)), "0", "-1"])
                #expect((ready.array ?? []).compactMap(\.string).sorted() == ids, "\(priority)")
            }
            let claimed = try await fixture.claim(10).first { $0.id == "c" }
            let job = try Job(json: try #require(claimed).json, wasValidated: true)
            #expect(job.priority == .high, "its JSON has it too")
        }
    }

    /// Fault: eight jobs of 30 MB behind small ones were read in one call, in which Redis served no other client for
    /// three seconds.
    @Test func largeJobsAreReadOneByOne() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for index in 0..<16 { try await push(QueueFixture.job("s\(index)"), to: .normal, fixture) }
            let large = Data(repeating: UInt8(ascii: "x"), count: 2 << 20)
            for _ in 0..<10 { try await push(large, to: .normal, fixture) }
            // A round stages twice.
            try await fixture.admit()
            #expect(try await fixture.count("LLEN", fixture.keys.jobs) == 8)
        }
    }

    /// Fault: an element of more than 1 MiB was read by each round while packs filled the window, and no intake behind
    /// it was looked at.
    @Test func anOversizedElementIsTakenWithoutRoom() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let stat = RedisArgument.string(fixture.keys.stat)
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admitAll(1)
            // As if the job were a pack that has filled its room.
            try await fixture.redis.send(["HSET", stat, "packed", "255"])
            let large = ByteBuffer(repeating: UInt8(ascii: " "), count: 2 << 20)
            try await fixture.redis.send(["LPUSH", .string(fixture.keys.jobs(.high)), .buffer(large)])
            try await fixture.push(QueueFixture.job("b"))
            var (window, staged) = (AdmissionWindow(limit: 1000), StagedJobs())
            window.observe(.places(100))
            for _ in 0..<4 {
                _ = try await fixture.intake.admit(epoch: fixture.epoch, window: &window, staged: &staged, chunk: 40)
            }
            #expect(try await fixture.count("LLEN", fixture.keys.jobs(.high)) == 0)
            #expect(try await fixture.count("LLEN", fixture.keys.jobs) == 0)
            #expect(try await fixture.count("ZCARD", fixture.keys.dead) == 1)
        }
    }

    /// Fault: jobs that another leader had staged were read eight at a time, however large.
    @Test func largeJobsOfAnEarlierLeaderAreReadInPieces() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let stage = RedisArgument.string(fixture.keys.stage(epoch: fixture.epoch))
            let large = Data([0]) + Data(repeating: UInt8(ascii: "x"), count: 400 << 10)
            for _ in 0..<5 { try await fixture.redis.send(["RPUSH", stage, .buffer(ByteBuffer(bytes: large))]) }
            var staged = StagedJobs()
            // A round stages twice, and takes the first ones out of the stage.
            #expect(try await fixture.round(&staged) == .admitted(Intake.Counts(invalid: 2)))
            #expect(staged.count == 2, "three have more than 1 MiB")
            for _ in 0..<2 { _ = try await fixture.round(&staged) }
            #expect(staged.isEmpty)
            #expect(try await fixture.count("LLEN", fixture.keys.stage(epoch: fixture.epoch)) == 0)
        }
    }

    /// Fault: the jobs of a public list that were held had no limit, and filled Redis.
    @Test func thePublicListsAreNotReadWhileTooManyJobsWait() async throws {
        try await QueueFixture.run { (fixture) async throws in
            var intake = fixture.intake
            intake.waitingLimits.jobs = 10
            let later = try await fixture.queue.now() / 1000 + 3600
            for index in 0..<100 {
                let json =
                    #"{"id": "\#(index)", "source": "https://slow.example/\#(index).jpg", "notBefore": \#(later)}"#
                try await push(Data(json.utf8), to: .normal, fixture)
            }
            var (window, staged) = (AdmissionWindow(limit: 20), StagedJobs())
            func round() async throws -> Intake.Round {
                try await intake.admit(epoch: fixture.epoch, window: &window, staged: &staged, chunk: 5)
            }
            var last = Intake.Round.empty
            for _ in 0..<50 where last != .full { last = try await round() }
            #expect(last == .full, "the leader looks again, and does not wait for a push")
            let waiting = try await fixture.count("ZCARD", fixture.keys.delay)
            #expect(waiting > 20 && waiting <= 40, "the others stay in the list")
            try await fixture.submit([QueueFixture.job("f", batch: "small")], to: "small")
            for _ in 0..<2 { _ = try await round() }
            #expect(try await fixture.claim(10).map(\.id) == ["f"], "a small batch does not wait")
            intake.waitingLimits.jobs = 1000
            #expect(try await round() != .full, "it is read again")
        }
    }

    @Test func intakesAreClosedInSteps() {
        let limits = WaitingLimits(jobs: 10, bytes: 1000)
        #expect(limits.step(jobs: 10, bytes: 1000) == nil)
        #expect(limits.step(jobs: 11, bytes: 0) == .largeBatches)
        #expect(limits.step(jobs: 21, bytes: 0) == .publicLists)
        #expect(limits.step(jobs: 0, bytes: 2001) == .publicLists)
        #expect(limits.step(jobs: 41, bytes: 0) == .all)
    }

    @Test func theStatusNamesTheIntakesThatAreNotRead() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let inspector = Inspector(queue: fixture.queue, cache: fixture.redis)
            #expect(try await inspector.status().intakeWarning == nil)
            let bytes = 2 * WaitingLimits().bytes + 1
            try await fixture.redis.send(["HSET", .string(fixture.keys.heldBytes), "bytes", .int(bytes)])
            let status = try await inspector.status()
            #expect(status.unreadIntakes == "public_lists")
            #expect(try #require(status.intakeWarning).hasPrefix("the public lists and those of large batches"))
        }
    }

    /// Fault: the priority counted from admission only, so that a `high` job waited behind all earlier ones.
    @Test func aHighJobPassesAFullList() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for index in 0..<500 { try await push(QueueFixture.job("n\(index)"), to: .normal, fixture) }
            for index in 0..<500 { try await push(QueueFixture.job("b\(index)"), to: .bulk, fixture) }
            try await push(QueueFixture.job("h"), to: .high, fixture)
            try await fixture.admit(window: 64)
            #expect(try await fixture.claim(1).map(\.id) == ["h"])
            let next = try await fixture.claim(20).map { $0.id.prefix(1) }
            #expect(next.count { $0 == "n" } == 4 * next.count { $0 == "b" }, "\(next)")
        }
    }

    /// Fault: the intakes of batches counted as `normal`, so that `bulk` jobs got a third of the fleet beside a batch
    /// of `high` ones.
    @Test func batchesShareByThePrioritiesOfTheirJobs() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for priority in Job.Priority.allCases {
                let jobs = (0..<200).map { QueueFixture.job("\(priority)-\($0)", priority: priority) }
                try await fixture.submit(jobs, to: "\(priority)")
            }
            try await fixture.admitAll(84, window: 84)
            var counts: [Int] = []
            for priority in Job.Priority.allCases {
                counts.append(try await fixture.count("LLEN", fixture.keys.ready(priority)))
            }
            #expect((60...66).contains(counts[0]) && (14...18).contains(counts[1]), "\(counts)")
            #expect((3...6).contains(counts[2]), "\(counts)")
        }
    }
}
