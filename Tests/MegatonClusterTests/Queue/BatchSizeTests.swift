import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// The field `batchSize` of pushed jobs, on a real Redis.
@Suite(.timeLimit(.minutes(2))) struct BatchSizeTests {
    private func job(_ id: String, _ size: Int?) -> Data {
        var job = Job(id: id, source: "https://example.org/\(id).jpg", batch: "b")
        job.batchSize = size
        return job.json()
    }

    private func push(_ jobs: [Data], _ fixture: QueueFixture) async throws {
        for job in jobs { try await fixture.push(job) }
        while case .admitted = try await fixture.admit() {}
    }

    private func end(_ fixture: QueueFixture) async throws {
        for job in try await fixture.claim(9) { #expect(try await fixture.finish(job) == .ok) }
    }

    @Test func aBatchEndsWithTheNumberOfJobsThatTheyName() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await push([job("a", 3), job("b", 3)], fixture)
            try await end(fixture)
            #expect(try await !fixture.batch("b").isFinished, "a job is missing")
            try await push([Data(#"{"id":"c","batch":"b","batchSize":3}"#.utf8)], fixture)
            #expect(try await fixture.batch("b").isFinished, "an invalid job counts too")
        }
    }

    @Test func theFirstNumberCountsAndJobsWithoutOneDoToo() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await push([job("a", nil), job("b", 2)], fixture)
            try await push([job("c", 9)], fixture)
            #expect(try await !fixture.batch("b").isFinished)
            try await end(fixture)
            #expect(try await fixture.batch("b").isFinished)
        }
    }

    @Test func aSubmitterClosesItsBatchItself() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let submitter = "me"
            _ = try await fixture.queue.submit(
                [job("a", 1)],
                to: "b",
                first: 0,
                isLast: false,
                policy: .init(),
                submitter: submitter
            )
            while case .admitted = try await fixture.admit() {}
            try await end(fixture)
            #expect(try await !fixture.batch("b").isFinished, "its submitter may push more")
        }
    }

    // Fault: the number came back with the next job, and the batch waited for jobs that no client pushed.
    @Test func aCancelledBatchEndsWithoutTheJobsThatAreMissing() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await push([job("a", 5)], fixture)
            _ = try await fixture.queue.cancel(batch: "b")
            try await push([job("b", 5)], fixture)
            try await end(fixture)
            #expect(try await fixture.batch("b").isFinished)
        }
    }

    // Fault: `megaton batch close` changed nothing if the jobs had announced more.
    @Test func aBatchThatIsClosedWithoutANumberEndsWithItsJobs() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await push([job("a", 5)], fixture)
            try await end(fixture)
            #expect(try await !fixture.batch("b").isFinished)
            #expect(try await fixture.queue.close(batch: "b"))
            #expect(try await fixture.batch("b").isFinished)
        }
    }

    // Fault: the number came back with the next job.
    @Test func aClosedBatchDoesNotWaitForMoreAfterAStraggler() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await push([job("a", 5)], fixture)
            #expect(try await !fixture.queue.close(batch: "b"), "a job runs")
            try await push([job("b", 5)], fixture)
            try await end(fixture)
            #expect(try await fixture.batch("b").isFinished)
        }
    }

    @Test(arguments: [
        (#""batchSize":2"#, "goes with a batch only"), (#""batch":"b","batchSize":0"#, "1 to 1000000000"),
        (#""batch":"b","batchSize":"all""#, "batchSize"),
    ])
    func impossibleSizesAreNamed(_ fields: String, _ words: String) {
        #expect {
            try Job(json: Data(#"{"source":"https://h/a",\#(fields)}"#.utf8))
        } throws: { ($0 as? JobError)?.message.contains(words) == true }
    }
}
