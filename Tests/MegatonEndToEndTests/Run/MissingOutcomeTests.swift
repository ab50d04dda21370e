import Foundation
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCLI
@testable import MegatonCluster

/// Names of jobs without an outcome, and ledgers that are continued.
@Suite(.timeLimit(.minutes(1))) struct MissingOutcomeTests {
    private func line(_ id: String) -> Data { JobOutcome(id: id, source: "s", status: .done).json() }

    private func history(_ ids: String...) -> OutcomeHistories {
        var lines = ids.map(line)[...]
        return OutcomeHistories([OutcomeHistory(lines: { lines.popFirst() })])
    }

    @Test func theFirstMissingJobsAreNamed() {
        var ids = SubmittedIDs(batch: "b")
        ids.add(["b.1", "own", nil])
        ids.add(["b.22", "b.x"])
        #expect(Array(ids.all) == ["b.1", "own", "b.22", "b.x"])
        #expect(MissingOutcomes(0, .none, ids, history()) == nil)
        let missing = MissingOutcomes(2, .none, ids, history("b.1", "b.x"))
        #expect(missing?.ids == ["own", "b.22"] && missing?.deleted == 0)
        #expect(
            MissingOutcomes(1, .none, ids, history("b.1", "b.x"))?.ids == [],
            "two seem to be missing: none is named"
        )
        #expect(MissingOutcomes(5, BatchCounters(["results_dropped": "3"]), ids, nil)?.deleted == 3)
        ids.add((0..<50).map { "c\($0)" })
        #expect(MissingOutcomes(54, .none, ids, history())?.ids.count == 20)
    }

    /// Fault: a reader did not notice outcomes that Redis had lost without a gap in their numbers.
    @Test func aReaderComparesItsOutcomesWithTheNumberOfJobs() {
        func gaps(_ fields: [String: String], deleted: Int = 0, skipped: Int = 0, _ received: Int) -> OutcomeGaps {
            let own = ["submitted": "10", "total": "10", "finished": "1"]
            return OutcomeGaps(
                BatchCounters(own.merging(fields) { $1 }),
                deleted: deleted,
                skipped: skipped,
                received: received
            )
        }
        #expect(gaps([:], 10).isEmpty)
        #expect(gaps([:], 12).isEmpty, "outcomes that were read twice")
        #expect(gaps([:], 7).lost == 3)
        #expect(gaps([:], skipped: 6, 4).isEmpty && gaps([:], skipped: 6, 3).lost == 1)
        #expect(gaps(["cancelled": "4"], 6).isEmpty, "jobs that were cancelled early have no outcome")
        #expect(gaps(["cancelled": "4"], 5).lost == 1)
        #expect(gaps(["submitted": "0"], 9).lost == 1, "jobs of the public list are not submitted to the batch")
        let both = gaps(["results_dropped": "2"], deleted: 1, 5)
        #expect(both.deleted == 3 && both.lost == 2)
        let report = both.report(of: "spring")
        #expect(report.count == 2 && report[0].contains("3 outcomes of the batch spring"), "\(report)")
        #expect(report[1].contains("2 outcomes of the batch spring are missing: Redis has lost them"), "\(report)")
        #expect(gaps(["finished": ""], 5).isEmpty, "a batch that goes on")
    }

    /// Fault: a Redis that was away in the moment after the end of the batch looked like one without outcomes, and the
    /// run ended with 69.
    @Test func theLastOutcomesAreAwaitedFromARedisThatIsAway() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let directory = try TestDirectory()
            defer { directory.remove() }
            let client = server.client()
            defer { client.close() }
            let urls = (0..<3).map { "https://example.org/\($0).png" }.joined(separator: "\n")
            let list = try directory.write(Data(urls.utf8), to: "list.txt")
            let ledger = directory.path + "/ledger.jsonl"
            let submit = try ProgramUnderTest.megaton([
                "submit", list, "--output", directory.path, "--batch", "b", "--wait", "--ledger", ledger, "--redis",
                server.url,
            ])
            let key = RedisArgument.string("megaton:{default}:2:batch:b")
            try await server.wait(forChangesOf: ["megaton:{default}:2:batch:b"]) { client in
                try await client.send(["HGET", key, "closed"]).int == 1
            }
            // The jobs end, and from then on Redis answers questions, but refuses scripts that may write.
            let lines = (0..<3).map { RedisArgument.buffer(ByteBuffer(bytes: line("\($0)"))) }
            let replies = try await client.pipeline([
                ["MULTI"],
                RedisCommand(["RPUSH", "megaton:{default}:2:results:b"] + lines),
                ["HSET", key, "total", "3", "own", "3", "done", "3", "outcomes", "3", "finished", "1"],
                ["CONFIG", "SET", "min-replicas-to-write", "1"],
                ["EXEC"],
            ])
            #expect(replies.last?.array?.count == 3)
            try await submit.waitForErrors { $0.components(separatedBy: "waiting for Redis").count >= 4 }
            try await client.send(["CONFIG", "SET", "min-replicas-to-write", "0"])
            let ending = await submit.ending()
            #expect(ending.code == 0, "\(ending.errors)")
            let written = try String(contentsOfFile: ledger, encoding: .utf8).split(separator: "\n")
            #expect(written.count == 3)
        }
    }

    @Test func aLedgerIsContinuedBehindItsLastWholeLine() async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let whole = line("a") + Data("\n\n".utf8) + line("b") + Data("\n".utf8)
        let path = try directory.write(whole + Data(#"{"attempts":1,"id":"c"#.utf8), to: "ledger.jsonl")
        let ledger = try await Ledger.open(path, isDurable: true) { false }
        #expect(try await ledger.resume(at: "").number == 2)
        try await ledger.append([line("c")])
        ledger.close()
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == whole + line("c") + Data("\n".utf8))
        let empty = try await Ledger.open(directory.path + "/new.jsonl") { false }
        #expect(try await empty.resume(at: "").number == 0)
        empty.close()
    }
}
