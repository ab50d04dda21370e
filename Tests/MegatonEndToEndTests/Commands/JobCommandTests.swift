import Foundation
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

/// `megaton job`: one job through its states.
@Suite(.timeLimit(.minutes(3))) struct JobCommandTests {
    private func job(_ arguments: [String], _ cluster: FaultCluster) async throws -> ProgramUnderTest.Ending {
        await (try ProgramUnderTest.megaton(["job"] + arguments + ["--redis", cluster.server.url])).ending()
    }

    private func push(_ json: String, _ cluster: FaultCluster) async throws {
        try await cluster.client.send(["LPUSH", "megaton:{default}:jobs", .string(json)])
    }

    @Test func aJobIsShownInEachState() async throws {
        try await FaultCluster.run { (cluster) async throws in
            let none = try await job(["a"], cluster)
            #expect(none.code == 1 && none.errors.contains("no job has the id \"a\""), "\(none.errors)")
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

    @Test(arguments: [["a b"], ["a", "--batch", "x/y"]]) func otherIdsAreWrongUsage(_ arguments: [String]) async throws
    {
        let redis = ["--redis", "redis://127.0.0.1:1"]
        let ending = await (try ProgramUnderTest.megaton(["job"] + arguments + redis)).ending()
        #expect(ending.code == 64, "\(ending.errors)")
    }
}
