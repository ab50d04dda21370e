import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(2))) struct BatchTests {
    private func jobs(_ range: Range<Int>) -> [Data] { range.map { QueueFixture.job("j\($0)", batch: "b") } }

    @Test func aLedgerIsReadInPartsThatAReplyHasRoomFor() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let line = RedisArgument.string(String(repeating: "x", count: 20_000))
            for _ in 0..<200 { try await fixture.redis.send(["RPUSH", .string(fixture.keys.results("b")), line]) }
            var parts: [Int] = []
            repeat {
                parts.append(try await fixture.results(of: "b", kept: parts.reduce(0, +), limit: 150).count)
            } while parts.last != 0
            #expect(parts.reduce(0, +) == 200 && parts.allSatisfy { $0 < 100 }, "\(parts)")
            #expect(try await fixture.count("EXISTS", fixture.keys.results("b")) == 0)
        }
    }

    @Test func aRepeatedPushChangesNothing() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let queue = fixture.queue
            #expect(
                try await queue.submit(
                    jobs(0..<3),
                    to: "b",
                    first: 0,
                    isLast: false,
                    policy: .init(keepsLedger: true),
                    submitter: "me"
                ) == 3
            )
            #expect(
                try await queue.submit(
                    jobs(0..<3),
                    to: "b",
                    first: 0,
                    isLast: false,
                    policy: .init(keepsLedger: true),
                    submitter: "me"
                ) == 3
            )
            #expect(
                try await queue.submit(
                    jobs(1..<5),
                    to: "b",
                    first: 1,
                    isLast: true,
                    policy: .init(keepsLedger: true),
                    submitter: "me"
                )
                    == 5
            )
            #expect(try await fixture.count("LLEN", fixture.keys.jobs(batch: "b")) == 5)
            await #expect(throws: RedisError.self) {
                try await queue.submit(
                    jobs(7..<8),
                    to: "b",
                    first: 7,
                    isLast: false,
                    policy: .init(keepsLedger: true),
                    submitter: "me"
                )
            }
        }
    }

    /// A submitter that suspends while it pushes must not drop jobs that are added meanwhile.
    @Test func tasksThatShareASubmitterLoseNoJob() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let submitter = BatchSubmitter(queue: fixture.queue, batch: "b")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for job in jobs(0..<200) {
                    group.addTask {
                        try await submitter.add(job)
                        try await submitter.flush()
                    }
                }
                try await group.waitForAll()
            }
            try await submitter.close()
            #expect(await submitter.submitted == 200)
            let pushed = try await fixture.redis.send(["LRANGE", .string(fixture.keys.jobs(batch: "b")), "0", "-1"])
            #expect(Set(pushed.array?.compactMap(\.string) ?? []).count == 200 && pushed.array?.count == 200)
        }
    }

    /// Fault: pushes that overlapped were larger than a chunk, and a close beside them refused their jobs.
    @Test func jobsThatAreAddedDuringAPushFollowInChunks() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let submitter = BatchSubmitter(queue: fixture.queue, batch: "b")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for job in jobs(0..<1300) { group.addTask { try await submitter.add(job) } }
                try await group.waitForAll()
            }
            async let first: Void = submitter.flush()
            async let second: Void = submitter.close()
            async let third: Void = submitter.close()
            _ = try await (first, second, third)
            #expect(await submitter.submitted == 1300)
            let pushed = try await fixture.redis.send(["LRANGE", .string(fixture.keys.jobs(batch: "b")), "0", "-1"])
            #expect(Set(pushed.array?.compactMap(\.string) ?? []).count == 1300 && pushed.array?.count == 1300)
            let batch = try await fixture.batch("b")
            #expect(batch["closed"] == 1 && batch["submitted"] == 1300)
        }
    }

    @Test func aClosedSubmitterAcceptsNoJob() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let submitter = BatchSubmitter(queue: fixture.queue, batch: "b")
            try await submitter.add(jobs(0..<1)[0])
            try await submitter.close()
            await #expect { try await submitter.add(jobs(1..<2)[0]) } throws: { ($0 as? RedisError)?.code == .closed }
            try await submitter.flush()
            try await submitter.close()
            #expect(try await fixture.batch("b")["submitted"] == 1)
        }
    }

    @Test func endsOnceWhenAllItsJobsHave() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let submitter = BatchSubmitter(queue: fixture.queue, batch: "b", policy: .init(keepsLedger: true))
            for job in jobs(0..<3) { try await submitter.add(job) }
            try await submitter.flush()
            try await fixture.admit()
            let claimed = try await fixture.claim(3)
            #expect(try await fixture.finish(claimed[0]) == .ok)
            #expect(try await fixture.finish(claimed[1], .failed) == .ok)
            #expect(try await fixture.finish(claimed[2], .cancelled) == .ok)
            #expect(try await !fixture.batch("b").isFinished, "more may come")
            try await submitter.close()
            let batch = try await fixture.batch("b")
            #expect(batch.isFinished)
            #expect(batch["done"] == 1 && batch["failed"] == 1 && batch["cancelled"] == 1 && batch["total"] == 3)
            let outcomes = try await fixture.results(of: "b", kept: 0).map {
                try JSONDecoder().decode(JobOutcome.self, from: $0)
            }
            #expect(outcomes.map(\.status) == [.done, .failed, .cancelled])
            #expect(try await fixture.results(of: "b", kept: 0).count == 3, "a lost reply loses nothing")
            #expect(try await fixture.results(of: "b", kept: 2).count == 1)
            #expect(try await fixture.results(of: "b", kept: 3).isEmpty)
        }
    }

    @Test func endsWithItsLastJobWhereItWasClosedBefore() async throws {
        try await QueueFixture.run { (fixture) async throws in
            _ = try await fixture.queue.submit(
                jobs(0..<2),
                to: "b",
                first: 0,
                isLast: true,
                policy: .init(keepsLedger: false),
                submitter: "me"
            )
            #expect(try await !fixture.batch("b").isFinished)
            try await fixture.admit()
            let claimed = try await fixture.claim(2)
            _ = try await fixture.finish(claimed[0])
            #expect(try await !fixture.batch("b").isFinished)
            _ = try await fixture.finish(claimed[1])
            #expect(try await fixture.batch("b").isFinished)
            #expect(try await fixture.count("LLEN", fixture.keys.results("b")) == 0, "it keeps no ledger")
        }
    }

    @Test func anEmptyBatchEndsAtOnce() async throws {
        try await QueueFixture.run { (fixture) async throws in
            _ = try await fixture.queue.submit(
                [],
                to: "b",
                first: 0,
                isLast: true,
                policy: .init(keepsLedger: true),
                submitter: "me"
            )
            #expect(try await fixture.batch("b").isFinished)
        }
    }

    @Test func anInvalidJobIsADeadLetterAndCountsInItsBatch() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let bad = Data(#"{"source":"https://h/a.jpg","colour":"red"}"#.utf8)
            _ = try await fixture.queue.submit(
                [bad, Data("{".utf8), jobs(0..<1)[0]],
                to: "b",
                first: 0,
                isLast: true,
                policy: .init(keepsLedger: true),
                submitter: "me"
            )
            #expect(try await fixture.admit() == .admitted(.init(admitted: 1, invalid: 2)))
            let batch = try await fixture.batch("b")
            #expect(batch["failed"] == 2 && batch["total"] == 3)
            let info = try await fixture.redis.send(["HVALS", .string(fixture.keys.deadInfo)]).array ?? []
            let dead = try info.map {
                try JSONDecoder().decode(DeadLetter.Content.self, from: Data(($0.string ?? "").utf8))
            }
            #expect(dead.contains { $0.code == "invalid_job" && $0.message.contains("\"colour\"") && $0.batch == "b" })
            #expect(dead.contains { $0.job == "{" })
            let lines = try await fixture.results(of: "b", kept: 0)
            let outcome = try JSONDecoder().decode(JobOutcome.self, from: lines[0])
            #expect(outcome.status == .failed && outcome.error?.code == "invalid_job")
        }
    }

    /// Fault: the script stopped at the damaged batch after other batches had counted their jobs. The next round
    /// counted them again, and so on, and nothing was admitted any more.
    @Test(arguments: ["batch", "counter", "seen", "results"]) func aDamagedBatchKeepsNoOthersFromBeingAdmitted(
        _ what: String
    ) async throws {
        try await QueueFixture.run { (fixture) async throws in
            let names = ["one", "two", "three"]
            for name in names {
                try await fixture.submit(
                    [QueueFixture.job("\(name)-1"), QueueFixture.job("\(name)-2"), Data("{".utf8)],
                    to: name,
                    policy: BatchPolicy(keepsLedger: true, deduplicates: true)
                )
            }
            let batch = RedisArgument.string(fixture.keys.batch("two"))
            switch what {
            case "batch": try await fixture.redis.send(["SET", batch, "no hash"])
            case "counter": try await fixture.redis.send(["HSET", batch, "own", "no number"])
            case "seen": try await fixture.redis.send(["SET", .string(fixture.keys.known("two")), "no hash"])
            default: try await fixture.redis.send(["SET", .string(fixture.keys.results("two")), "no list"])
            }
            var counts = Intake.Counts()
            while case .admitted(let some) = try await fixture.admit() {
                counts.admitted += some.admitted
                counts.invalid += some.invalid
            }
            let hasLostAll = what != "results"
            #expect(counts == Intake.Counts(admitted: hasLostAll ? 4 : 6, invalid: hasLostAll ? 5 : 3))
            let code: String? = hasLostAll ? "damaged_batch" : nil
            for id in ["two-1", "two-2"] {
                #expect(try await fixture.places(id) == [hasLostAll ? "dead" : "ready"])
                let letter = try await fixture.queue.deadLetter(id: id)
                #expect(letter?.content.code == code && letter?.content.batch == code.map { _ in "two" })
            }
            let stat = RedisArgument.string(fixture.keys.stat)
            let told = try await fixture.redis.send(["HMGET", stat, "damaged_batch_ends", "failed"]).array?.map(\.int)
            #expect(told == [hasLostAll ? 3 : 1, hasLostAll ? 5 : 3])
            for job in try await fixture.claim(9) where job.batch != "two" {
                #expect(try await fixture.finish(job) == .ok)
            }
            for name in names where name != "two" {
                let counters = try await fixture.batch(name)
                #expect(counters["total"] == 3 && counters["done"] == 2 && counters.isFinished, "\(name): \(counters)")
            }
        }
    }

    @Test func anIdThatIsAliveIsADuplicate() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a", batch: "b"), QueueFixture.job("a", batch: "b"))
            #expect(try await fixture.admit() == .admitted(.init(admitted: 1, duplicates: 1)))
            let jobs = try await fixture.claim(5)
            #expect(jobs.count == 1)
            #expect(try await fixture.batch("b")["total"] == 2)
            #expect(try await fixture.finish(jobs[0]) == .ok)
            let batch = try await fixture.batch("b")
            #expect(batch["done"] == 1 && batch["deduplicated"] == 1, "it ends with the first one")
        }
    }

    @Test func aCancelledBatchLeavesNothingBehind() async throws {
        try await QueueFixture.run { (fixture) async throws in
            _ = try await fixture.queue.submit(
                jobs(0..<2),
                to: "b",
                first: 0,
                isLast: false,
                policy: .init(keepsLedger: true),
                submitter: "me"
            )
            try await fixture.admit()
            let running = try await fixture.claim(1)[0]
            _ = try await fixture.queue.submit(
                jobs(2..<5),
                to: "b",
                first: 2,
                isLast: true,
                policy: .init(keepsLedger: true),
                submitter: "me"
            )
            _ = try await fixture.admit(chunk: 1)
            try await fixture.queue.cancel(batch: "b")
            for job in try await fixture.claim(10) {
                #expect(job.isCancelled)
                #expect(try await fixture.finish(job, .cancelled) == .ok)
            }
            #expect(try await fixture.admit() == .admitted(.init(cancelled: 1)), "one was staged")
            #expect(try await fixture.finish(running) == .ok, "what is done is done")
            let batch = try await fixture.batch("b")
            #expect(batch.isFinished && batch["done"] == 1 && batch["cancelled"] == 4 && batch["total"] == 5)
            try await fixture.push(QueueFixture.job("late", batch: "b"))
            #expect(try await fixture.admit() == .admitted(.init(cancelled: 1)))
        }
    }

    /// Fault: jobs that were cancelled before a coordinator had read them had no outcome, and so no line in a ledger.
    @Test func aDroppedJobHasAnOutcome() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let job = #"{"id":"j","source":"http://a.example/0","labels":{"n":"x"}}"#
            let pack = #"{"id":"p","sources":["http://a.example/1","http://a.example/2"]}"#
            // Read as infinity, which cannot be written.
            let endless = #"{"id":"e","source":"http://a.example/3","labels":{"n":1e999}}"#
            let jobs = [
                PushedJob(json: Data(job.utf8), sources: 1), PushedJob(json: Data(pack.utf8), sources: 2),
                PushedJob(json: Data("no job".utf8), sources: 1), PushedJob(json: Data(endless.utf8), sources: 1),
            ]
            _ = try await fixture.queue.push(
                jobs,
                to: "b",
                first: 0,
                isLast: true,
                policy: BatchPolicy(keepsLedger: true),
                idsAreUnique: true,
                submitter: "me"
            )
            try await fixture.queue.cancel(batch: "b")
            let results = RedisArgument.string(fixture.keys.results("b"))
            let lines = try await fixture.redis.send(["LRANGE", results, "0", "-1"]).array ?? []
            let outcomes = try lines.map { line in
                try JSONDecoder().decode(JobOutcome.self, from: Data((line.string ?? "").utf8))
            }
            let names = outcomes.map { "\($0.id ?? "") \($0.source)" }
            #expect(names == ["j http://a.example/0", "p.1 http://a.example/1", "p.2 http://a.example/2"])
            #expect(outcomes.allSatisfy { $0.status == .cancelled && $0.error?.code == "cancelled" })
            #expect(outcomes.first?.labels == ["n": .text("x")])
            let batch = try await fixture.batch("b")
            #expect(batch["cancelled"] == 5 && batch["outcomes"] == 3 && batch.isFinished)
            let unwritten = try await fixture.redis.send(["HGET", .string(fixture.keys.stat), "damaged_batch_ends"])
            #expect(unwritten.int == 1)
        }
    }

    /// Fault: an id of an order with more than 14 digits came back as another number, as cjson had written it.
    @Test(arguments: [
        "123456789012345678", "[4111111111111111, {\"sources\": \"a]}\"}]", "0.12345678901234567",
    ])
    func theLabelsOfADroppedJobStayAsTheyWere(_ value: String) async throws {
        let labels = #"{"a\"]b": "}\\", "order": \#(value), "n": "é"}"#
        try await QueueFixture.run { (fixture) async throws in
            let job = #"{"id":"labels","source":"http://a.example/0","labels": \#(labels)}"#
            let pack =
                #"{"sources":[{"labels":\#(labels),"source":"http://a.example/1"}, "http://a.example/2"],"id":"sources"}"#
            let jobs = [PushedJob(json: Data(job.utf8), sources: 1), PushedJob(json: Data(pack.utf8), sources: 2)]
            let policy = BatchPolicy(keepsLedger: true)
            _ = try await fixture.queue.push(
                jobs,
                to: "b",
                first: 0,
                isLast: true,
                policy: policy,
                idsAreUnique: true,
                submitter: "me"
            )
            try await fixture.queue.cancel(batch: "b")
            let results = RedisArgument.string(fixture.keys.results("b"))
            let lines = try await fixture.redis.send(["LRANGE", results, "0", "-1"]).array?.compactMap(\.string) ?? []
            #expect(lines.count == 3)
            #expect(lines.map { $0.contains(#""labels":\#(labels),"#) } == [true, true, false], "\(lines)")
        }
    }

    /// Fault: the jobs were dropped before a counter that was no number ended the script, and nothing counted them.
    @Test(arguments: ["total", "own", "cancelled", "known"])
    func aDamagedBatchThatIsCancelledLosesNoJobUncounted(_ damage: String) async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.submit((0..<5).map { QueueFixture.job("a\($0)", batch: "b") }, to: "b")
            if damage == "known" {
                try await fixture.redis.send(["SET", .string(fixture.keys.known("b")), "no hash"])
            } else {
                try await fixture.redis.send(["HSET", .string(fixture.keys.batch("b")), .string(damage), "x"])
            }
            try await fixture.queue.cancel(batch: "b")
            #expect(try await fixture.count("EXISTS", fixture.keys.jobs(batch: "b")) == 0)
            let stat = RedisArgument.string(fixture.keys.stat)
            let counted = try await fixture.redis.send(["HMGET", stat, "damaged_batch_ends", "cancelled"]).array
            #expect(counted?.map(\.int) == [5, 5])
            #expect(try await !fixture.batch("b").isFinished)
            let isCancelled = try await fixture.redis.send(["SISMEMBER", .string(fixture.keys.cancelled), "b"]).int
            #expect(isCancelled == 1, "the jobs that are left end too")
        }
    }
}
