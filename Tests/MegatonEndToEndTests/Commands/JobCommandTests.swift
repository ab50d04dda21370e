import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCLI

/// `megaton job`: one job through its states.
@Suite(.timeLimit(.minutes(3))) struct JobCommandTests {
    private func job(_ arguments: [String], _ cluster: FaultCluster) async throws -> ProgramUnderTest.Ending {
        await (try ProgramUnderTest.megaton(["job"] + arguments + ["--redis", cluster.server.url])).ending()
    }

    private func push(_ json: String, _ cluster: FaultCluster) async throws {
        try await cluster.client.send(["LPUSH", "megaton:{default}:jobs", .string(json)])
    }

    /// Fault: the advice to name the batch was the last sentence of a long message.
    @Test func aMissingJobBeginsWithItsBatch() {
        for (id, name) in [("spring.3", "spring"), ("a.b.12", "a.b"), ("a", "NAME"), ("a.b", "NAME"), (".3", "NAME")] {
            let message = JobCommand.lack(of: id, in: nil)
            #expect(message.hasPrefix("give --batch \(name) if the job has a batch: no job"), "\(message)")
        }
        #expect(JobCommand.lack(of: "a", in: "") == "no job has the id \"a\" now")
        #expect(JobCommand.lack(of: "a", in: "b") == "no job of the batch \"b\" has the id \"a\" now")
    }

    @Test func aJobIsShownInEachState() async throws {
        try await FaultCluster.run { (cluster) async throws in
            let none = try await job(["a"], cluster)
            #expect(none.code == 1 && none.errors.contains("no job without one has the id \"a\""), "\(none.errors)")
            try await push(#"{"id":"a","source":"https://example.org/a.jpg","priority":"high"}"#, cluster)
            let unread = try await job(["a"], cluster)
            #expect(unread.code == 1 && unread.errors.contains("1 job waits to be read"), "\(unread.errors)")
            try cluster.coordinator()
            let later = Int(Date().timeIntervalSince1970) + 3600
            try await push(#"{"id":"b","batch":"x","source":"https://h/a","notBefore":\#(later)}"#, cluster)
            try await push(#"{"id":"c","source":"https://h/a","batch":"x","notBefore":2}"#, cluster)
            try await push(#"{"id":"d","source":"https://h/a","sizes":1}"#, cluster)
            try await cluster.wait(for: ["meta", "dead"]) { client in
                let alive = try await client.send(["HLEN", "megaton:{default}:2:meta"]).int ?? 0
                let dead = try await client.send(["ZCARD", "megaton:{default}:2:dead"]).int ?? 0
                return alive + dead == 4
            }
            let ready = try await job(["a"], cluster)
            #expect(ready.code == 0 && ready.output == "a: ready, priority high, 0 attempts\n", "\(ready.errors)")
            let other = try await job(["c", "--batch", "x"], cluster)
            #expect(other.output.hasPrefix("c (batch x): ready"), "\(other.output)\(other.errors)")
            let delayed = try await job(["b", "--batch", "x"], cluster)
            #expect(delayed.output.hasPrefix("b (batch x): delayed until 20"), "\(delayed.output)\(delayed.errors)")
            #expect(try await job(["c"], cluster).code == 1, "an id belongs to its batch")
            let dead = try await job(["d", "--json"], cluster)
            #expect(dead.output.contains("\"stage\":\"dead\"") && dead.output.contains("invalid_job"), "\(dead.output)")
        }
    }

    @Test func runningAndDelayedJobsAreShown() async throws {
        let answer: @Sendable (String) -> OriginServer.Answer = { path in
            let drip = OriginStream(piece: Data(count: 1), interval: .milliseconds(100))
            return path.contains("slow") ? .init(announcedLength: 100_000, stream: drip) : .init(status: 500)
        }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                try await cluster.start(workers: [["--stall-timeout", "60", "--fetch-timeout", "60"]])
                try await cluster.push(origin.url("/slow.png"), id: "slow")
                try await cluster.push(origin.url("/broken.png"), id: "broken", attempts: 100)
                try await cluster.wait(for: ["lease", "delay"]) { client in
                    let running = try await client.send(["ZSCORE", "megaton:{default}:2:lease", "slow"]).string
                    let delayed = try await client.send(["ZSCORE", "megaton:{default}:2:delay", "broken"]).string
                    return running != nil && delayed != nil
                }
                let running = try await job(["slow"], cluster)
                #expect(running.output.contains("slow: running on ") && running.output.contains("lease until 20"))
                // It may be under way again by now.
                let broken = try await job(["broken"], cluster)
                #expect(broken.code == 0 && broken.output.hasPrefix("broken: "), "\(broken.errors)")
            }
        }
    }

    /// Two paths that answer 429 stop their whole host for the time that they name.
    @Test func aHeldJobNamesItsHost() async throws {
        let answer = OriginServer.Answer(status: 429, headers: [("Retry-After", "100")])
        try await OriginServer.run(answer: { _ in answer }) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                try await cluster.start(workers: [[]])
                try await cluster.blockHost(of: origin)
                try await cluster.push(origin.url("/three.png"), id: "three")
                try await cluster.wait(for: ["holding"]) { client in
                    try await client.send(["ZCARD", "megaton:{default}:2:holding"]).int == 1
                }
                let host = "127.0.0.1:\(origin.port)"
                let held = try await job(["three"], cluster)
                #expect(held.output.hasPrefix("three: held until 20"), "\(held.output)\(held.errors)")
                #expect(held.output.hasSuffix("for \(host), 0 attempts\n"), "a refusal of the host is no attempt")
                let json = try await job(["three", "--json"], cluster)
                #expect(json.output.contains(#""stage":"held""#), "\(json.output)\(json.errors)")
                #expect(json.output.contains(#""host":"\#(host)""#), "\(json.output)")
            }
        }
    }

    @Test func anEndedJobIsKnownWhileItsBatchHasNotEnded() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try await cluster.start(workers: [FaultCluster.hasty])
            // Nothing closes these batches. The first one keeps the outcomes of its jobs.
            try await cluster.client.send(["HSET", "megaton:{default}:2:batch:kept", "ledger", "1"])
            for batch in ["kept", "counted"] {
                let output = "file://\(cluster.directory.path)/\(batch)/{id}.{ext}"
                let source = origin.url("/\(batch).png").absoluteString
                try await cluster.push(
                    fields: #""id":"a","batch":"\#(batch)","source":"\#(source)","output":"\#(output)""#
                )
            }
            try await cluster.wait(untilDone: 2)
            let kept = try await job(["a", "--batch", "kept"], cluster)
            let path = "\(cluster.directory.path)/kept/a.jpg"
            #expect(kept.output == "a (batch kept): done, 1 attempt \(path)\n", "\(kept.errors)")
            let json = try await job(["a", "--batch", "kept", "--json"], cluster)
            for field in [#""stage":"ended""#, #""status":"done""#, #""path":"\#(path)""#] {
                #expect(json.output.contains(field), "\(field) in \(json.output)\(json.errors)")
            }
            let counted = try await job(["a", "--batch", "counted"], cluster)
            let ended = "a (batch counted): ended; its outcome is not kept with its id"
            #expect(counted.code == 0 && counted.output.hasPrefix(ended), "\(counted.output)\(counted.errors)")
            #expect(counted.output.contains("megaton batch results counted"), "\(counted.output)")
        }
    }

    @Test func aJobThatIsDoneWithoutABatchHasItsOutcomeWhereItsReplySays() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try await cluster.start(workers: [FaultCluster.hasty])
            let source = origin.url("/a.png").absoluteString
            try await cluster.push(fields: #""id":"a","source":"\#(source)","reply":{"list":"client:job"}"#)
            #expect(try await cluster.outcome(in: "client:job").status == .done)
            let gone = try await job(["a"], cluster)
            #expect(gone.code == 1 && gone.output.isEmpty, "\(gone.output)")
            let reply = #""reply": {"list": "KEY"}"#
            for words in ["in the list or at the webhook", reply, "BLPOP KEY 60", "--batch NAME"] {
                #expect(gone.errors.contains(words), "\(words) in \(gone.errors)")
            }
            let other = try await job(["a", "--batch", "x"], cluster)
            #expect(other.code == 1 && other.errors.contains("megaton batch results x"), "\(other.errors)")
        }
    }

    @Test func aJobWhoseKeyIsItsIDIsKnownAfterItsEnd() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try await cluster.start(workers: [FaultCluster.hasty])
            let source = origin.url("/a.png").absoluteString
            try await cluster.push(fields: #""id":"a","key":"a","source":"\#(source)""#)
            try await cluster.push(fields: #""id":"b","key":"c","source":"\#(source)""#)
            try await cluster.wait(untilDone: 2)
            let own = try await job(["a"], cluster)
            #expect(own.code == 0 && own.output == "a: done, 1 attempt\n", "\(own.output)\(own.errors)")
            let json = try await job(["a", "--json"], cluster)
            #expect(
                json.output.contains(#""stage":"ended""#) && json.output.contains(#""status":"done""#),
                "\(json.output)"
            )
            // Fault: the facts had other names than in ledgers.
            #expect(json.output.contains(#""hasAlpha":"#) && !json.output.contains("has_alpha"), "\(json.output)")
            // Neither by another key, nor by the key of another job, nor in another batch.
            for arguments in [["b"], ["c"], ["a", "--batch", "x"]] {
                let other = try await job(arguments, cluster)
                #expect(other.code == 1 && other.output.isEmpty, "\(arguments): \(other.output)")
            }
            #expect(try await job(["b"], cluster).errors.contains("if its key was its id"))
        }
    }

    @Test(arguments: [["a b"], ["a", "--batch", "x/y"]]) func otherIdsAreWrongUsage(_ arguments: [String]) async throws
    {
        let redis = ["--redis", "redis://127.0.0.1:1"]
        let ending = await (try ProgramUnderTest.megaton(["job"] + arguments + redis)).ending()
        #expect(ending.code == 64, "\(ending.errors)")
    }
}
