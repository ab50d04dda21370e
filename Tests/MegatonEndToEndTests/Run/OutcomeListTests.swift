import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

/// Clients of other languages: jobs pushed with LPUSH, whose outcomes come in a list of the client.
@Suite(.timeLimit(.minutes(3))) struct OutcomeListTests {
    @Test func eachPushedJobHasAnOutcomeInTheListThatItNames() async throws {
        let image = FaultCluster.image
        let answer: @Sendable (String) -> OriginServer.Answer = { path in
            path.contains("missing") ? .init(status: 404) : .image(image)
        }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                try await cluster.start(workers: [FaultCluster.hasty])
                let reply = #""reply":{"list":"client:one","ttl":600}"#
                let output = "file://\(cluster.directory.path)/{stem}.{ext}"
                let url = { origin.url($0).absoluteString }
                let jobs = [
                    #"{"id":"a","source":"\#(url("/a.png"))","output":"\#(output)","labels":{"n":1},\#(reply)}"#,
                    #"{"id":"b","source":"\#(url("/missing.png"))",\#(reply)}"#,
                    #"{"id":"c","source":"\#(url("/c.png"))","size":9,\#(reply)}"#,
                    #"{"id":"d","sources":["\#(url("/d.png"))","\#(url("/e.png"))"],\#(reply)}"#,
                ]
                for job in jobs { try await cluster.client.send(["LPUSH", "megaton:{default}:jobs", .string(job)]) }
                let lines = try await cluster.client.outcomes(5, of: "client:one")
                let all = try lines.map { try JSONDecoder().decode(JobOutcome.self, from: $0) }
                let ended = Dictionary(uniqueKeysWithValues: all.map { ($0.id ?? "", $0) })
                let failed = ended.filter { $0.value.status == .failed }.keys.sorted()
                #expect(Set(ended.keys) == ["a", "b", "c", "d.1", "d.2"] && failed == ["b", "c"], "\(all)")
                #expect(ended["a"]?.outputs.first?.path == "\(cluster.directory.path)/a.jpg")
                #expect(ended["b"]?.error?.code == "not_found" && ended["c"]?.error?.code == "invalid_job")
                #expect(try await SchemaValidator("outcome").faults(of: lines).isEmpty)
                #expect(try await cluster.client.send(["EXISTS", "megaton:{default}:2:replies"]).int == 0)
            }
        }
    }

    /// The coordinator that has the outbox dies: its successor delivers what is left.
    @Test func outcomesOutliveTheCoordinator() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            let coordinator = try cluster.coordinator()
            try cluster.worker(FaultCluster.hasty)
            try await cluster.waitUntilReady(workers: 1)
            let list = "client:two"
            func push(_ ids: Range<Int>) async throws {
                for id in ids {
                    let source = origin.url("/\(id).png").absoluteString
                    let job = #"{"id":"\#(id)","source":"\#(source)","reply":{"list":"\#(list)"}}"#
                    try await cluster.client.send(["LPUSH", "megaton:{default}:jobs", .string(job)])
                }
            }
            try await push(0..<50)
            coordinator.send(SIGKILL)
            _ = await coordinator.ending()
            try await push(50..<60)
            try cluster.coordinator()
            var ids: Set<String> = []
            while ids.count < 60 {
                for line in try await cluster.client.outcomes(1, of: list) {
                    let outcome = try JSONDecoder().decode(JobOutcome.self, from: line)
                    #expect(outcome.status == .done)
                    ids.insert(outcome.id ?? "")
                }
            }
            #expect(ids == Set((0..<60).map(String.init)))
        }
    }

    /// The key of the list is in another slot than the queue, and on any node.
    @Test func aListMayBeAnywhereInARedisCluster() async throws {
        let image = FaultCluster.image
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            try await RedisClusterProcesses.run { (redis) async throws in
                let options = ["--redis", redis.url]
                let coordinator = try ProgramUnderTest.megaton(["coordinator"] + options)
                let worker = try ProgramUnderTest.megaton(
                    ["worker", "--allow-private", "--render-threads", "1"] + options
                )
                defer { for process in [worker, coordinator] { process.send(SIGKILL) } }
                let client = try redis.client()
                defer { client.close() }
                for number in 0..<6 {
                    let source = origin.url("/\(number).png").absoluteString
                    let job = #"{"source":"\#(source)","reply":{"list":"client:\#(number)"}}"#
                    try await client.send(["LPUSH", "megaton:{default}:jobs", .string(job)])
                }
                for number in 0..<6 {
                    let line = try await client.outcomes(1, of: "client:\(number)")[0]
                    #expect(try JSONDecoder().decode(JobOutcome.self, from: line).status == .done)
                }
            }
        }
    }
}
