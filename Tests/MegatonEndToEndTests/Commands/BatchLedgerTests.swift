import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

/// `megaton batch results` and `megaton batch close`.
@Suite(.timeLimit(.minutes(3))) struct BatchLedgerTests {
    private func megaton(_ arguments: [String], _ cluster: FaultCluster) async throws -> ProgramUnderTest.Ending {
        await (try ProgramUnderTest.megaton(arguments + ["--redis", cluster.server.url])).ending()
    }

    /// Fault: the ledger of a killed `submit --wait` could not be continued.
    @Test func theLedgerOfAKilledSubmitterIsContinued() async throws {
        try await FaultCluster.runWithOrigin(delay: .milliseconds(30)) { (cluster, origin) async throws in
            try await cluster.start(workers: [FaultCluster.hasty])
            let ledger = cluster.directory.path + "/spring.jsonl"
            let urls = (0..<120).map { origin.url("/\($0).png") }
            let submit = try cluster.submit(urls, ["--batch", "spring", "--ledger", ledger])
            try await cluster.wait(untilDone: 30)
            submit.send(SIGKILL)
            _ = await submit.ending()
            // As if it had died in the middle of a line.
            let file = try #require(FileHandle(forWritingAtPath: ledger))
            try file.seekToEnd()
            try file.write(contentsOf: Data(#"{"attempts":1,"id":"cut"#.utf8))
            try file.close()
            let ending = try await megaton(["batch", "results", "spring", "--follow", "--ledger", ledger], cluster)
            #expect(ending.code == 0, "\(ending.errors)")
            let outcomes = try cluster.lines(of: "spring.jsonl", as: JobOutcome.self)
            #expect(outcomes.count == 120 && Set(outcomes.map(\.source)).count == 120)
            let again = try await megaton(["batch", "results", "spring", "--follow", "--ledger", ledger], cluster)
            #expect(again.code == 0, "\(again.errors)")
            #expect(try cluster.lines(of: "spring.jsonl", as: JobOutcome.self).count == 120)
            let shown = try await megaton(["batch", "show", "spring"], cluster)
            #expect(shown.output.contains(#""outcomes" : 120"#), "\(shown.output)")
        }
    }

    /// Fault: the second command ended with 64, and without --from with 69.
    @Test func aLedgerThatBeganLaterIsContinued() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try await cluster.start(workers: [FaultCluster.hasty])
            func submit(_ names: Range<Int>) async throws {
                let lines = names.map { #"{"id":"j\#($0)","batch":"b","source":"\#(origin.url("/\($0).png"))"}"# }
                for line in lines { try await cluster.client.send(["LPUSH", "megaton:{default}:jobs", .string(line)]) }
                try await cluster.wait(untilDone: names.upperBound)
            }
            let key = RedisArgument.string("megaton:{default}:2:batch:b")
            try await cluster.client.send(["HSET", key, "created", "1", "ledger", "1"])
            try await submit(0..<5)
            let ledger = cluster.directory.path + "/b.jsonl"
            func read(_ arguments: [String]) async throws -> (code: Int32, lines: Int) {
                let ending = try await megaton(["batch", "results", "b", "--ledger", ledger] + arguments, cluster)
                return (ending.code, try cluster.lines(of: "b.jsonl", as: JobOutcome.self).count)
            }
            #expect(try await read(["--from", "3"]) == (0, 3))
            #expect(try await read(["--from", "3"]) == (0, 3))
            try await submit(5..<7)
            #expect(try await read(["--from", "3"]) == (0, 5))
            #expect(try await read([]) == (69, 5), "the first two are missing")
        }
    }

    @Test func outcomesArePrintedFromANumberAndStay() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try await cluster.start(workers: [FaultCluster.hasty])
            let list = try cluster.directory.write(
                Data((0..<5).map { origin.url("/\($0).png").absoluteString }.joined(separator: "\n").utf8),
                to: "list.txt"
            )
            let submitted = try await megaton(["submit", list, "--batch", "b", "--keep-outcomes"], cluster)
            #expect(submitted.code == 0, "\(submitted.errors)")
            let all = try await megaton(["batch", "results", "b", "--follow"], cluster)
            #expect(all.code == 0 && all.output.split(separator: "\n").count == 5, "\(all.errors)")
            let some = try await megaton(["batch", "results", "b", "--from", "4"], cluster)
            let expected = all.output.split(separator: "\n").suffix(2)
            #expect(some.code == 0 && some.output.split(separator: "\n") == Array(expected), "\(some.errors)")
            // Fault: a number behind the end was taken for that of a failover, and all outcomes were printed.
            let next = try await megaton(["batch", "results", "b", "--from", "6"], cluster)
            #expect(next.code == 0 && next.output.isEmpty && next.errors.isEmpty, "\(next.errors)")
            let beyond = try await megaton(["batch", "results", "b", "--from", "7"], cluster)
            #expect(beyond.code == 64 && beyond.output.isEmpty, "\(beyond.output)")
            #expect(beyond.errors.contains("has 5 outcomes, so that --from may be at most 6. If"), "\(beyond.errors)")
            let key = RedisArgument.string("megaton:{default}:2:batch:open")
            try await cluster.client.send(["HSET", key, "created", "1", "ledger", "1"])
            let open = try await megaton(["batch", "results", "open", "--from", "2", "--follow"], cluster)
            #expect(open.code == 64 && open.output.isEmpty, "\(open.output)")
            #expect(open.errors.contains("at most 1, with which --follow waits for the next"), "\(open.errors)")
            // Fault: the command ended with 0 although another reader had deleted its outcomes.
            let ledger = cluster.directory.path + "/b.jsonl"
            #expect(try await megaton(["batch", "results", "b", "--ledger", ledger], cluster).code == 0)
            for arguments in [[], ["--from", "2"]] {
                let read = try await megaton(["batch", "results", "b"] + arguments, cluster)
                #expect(read.code == 69 && read.output.isEmpty, "\(read.errors)")
                #expect(read.errors.contains("deleted; there are no others."), "\(read.errors)")
            }
            let behind = try await megaton(["batch", "results", "b", "--from", "6"], cluster)
            #expect(behind.code == 0 && behind.output.isEmpty, "none that it wants was deleted: \(behind.errors)")
            let none = try await megaton(["submit", list, "--batch", "c"], cluster)
            #expect(none.code == 0)
            let refused = try await megaton(["batch", "results", "c"], cluster)
            #expect(refused.code == 1 && refused.errors.contains("--keep-outcomes"), "\(refused.errors)")
            #expect(try await megaton(["batch", "results", "nobody"], cluster).code == 1)
        }
    }

    /// Fault: `batch results` ended with success although Redis had lost outcomes without a gap in their numbers.
    @Test func lostOutcomesAreNoticed() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try await cluster.start(workers: [FaultCluster.hasty])
            let urls = (0..<3).map { origin.url("/\($0).png").absoluteString }.joined(separator: "\n")
            let list = try cluster.directory.write(Data(urls.utf8), to: "list.txt")
            #expect(try await megaton(["submit", list, "--batch", "b", "--keep-outcomes"], cluster).code == 0)
            let whole = try await megaton(["batch", "results", "b", "--follow"], cluster)
            #expect(whole.code == 0, "\(whole.errors)")
            try await cluster.client.send(["HINCRBY", "megaton:{default}:2:batch:b", "submitted", "2"])
            let ledger = cluster.directory.path + "/b.jsonl"
            // The second time with the lines of the first, and the third time none of them.
            for arguments in [["--ledger", ledger], ["--ledger", ledger], ["--from", "2"]] {
                let ending = try await megaton(["batch", "results", "b"] + arguments, cluster)
                #expect(ending.code == 69 && ending.errors.contains("2 outcomes of the batch b are missing"))
            }
        }
    }

    /// Fault: the batch of a submitter that died while it pushed stayed open, and `batch wait` never ended.
    @Test func aBatchWithoutItsSubmitterIsClosed() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try await cluster.start(workers: [FaultCluster.hasty])
            let job = #"{"batch":"b","source":"\#(origin.url("/1.png").absoluteString)"}"#
            try await cluster.client.send(["HSET", "megaton:{default}:2:batch:b", "ledger", "1"])
            try await cluster.client.send(["LPUSH", "megaton:{default}:jobs", .string(job)])
            try await cluster.wait(untilDone: 1)
            let open = try await megaton(["batch", "wait", "b", "--timeout", "0.5"], cluster)
            #expect(open.code == 75 && open.errors.contains("megaton batch close b"), "\(open.errors)")
            let read = try await megaton(["batch", "results", "b", "--follow", "--timeout", "0.5"], cluster)
            #expect(read.code == 75 && read.errors.contains("--from 2 continues"), "\(read.errors)")
            #expect(read.output.split(separator: "\n").count == 1, "\(read.output)")
            let closed = try await megaton(["batch", "close", "b", "--jobs", "1"], cluster)
            #expect(closed.code == 0 && closed.output.contains("finished"), "\(closed.output)\(closed.errors)")
            #expect(try await megaton(["batch", "wait", "b"], cluster).code == 0)
            #expect(try await megaton(["batch", "close", "nobody"], cluster).code == 1)
        }
    }
}
