import Foundation
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

/// Coordinators that die, hang or are missing, and the jobs pushed to them.
@Suite(.serialized, .timeLimit(.minutes(2))) struct CoordinatorFaultTests {
    // A leader dies between `stage` and `admit`.
    @Test func jobsThatADeadLeaderHadStagedAreAdmittedOnce() async throws {
        try await FaultCluster.run { (cluster) async throws in
            let image = try cluster.directory.write(FaultCluster.image, to: "a.png")
            let client = cluster.client
            // The state left by two leaders that died between staging and admitting: the second had not even taken over
            // the first one's jobs. Its lease is about to expire.
            try await client.send(["SET", "megaton:{default}:2:epoch", "5"])
            try await client.send(["SET", "megaton:{default}:2:leader", "gone:1:dead", "PX", "100"])
            let ids = (0..<10).map { "job-\($0)" }
            for (index, id) in ids.enumerated() {
                let epoch = index < 3 ? "4" : "5"
                let job = #"{"id":"\#(id)","source":"file://\#(image)"}"#
                try await client.send(["SADD", "megaton:{default}:2:stages", .string(epoch)])
                try await client.send(["RPUSH", "megaton:{default}:2:stage:\(epoch)", .string("\u{0}" + job)])
            }
            try cluster.coordinator()
            try await cluster.wait(for: ["body"]) { client in
                try await client.send(["HLEN", "megaton:{default}:2:body"]).int == 10
            }
            let ready = (try await client.send(["LRANGE", "megaton:{default}:2:ready:normal", "0", "-1"]).array ?? [])
                .compactMap(\.string)
            #expect(ready.sorted() == ids)
            for epoch in ["4", "5"] {
                #expect(try await client.send(["EXISTS", "megaton:{default}:2:stage:\(epoch)"]).int == 0)
            }
            try cluster.worker()
            try await cluster.wait(untilDone: 10)
            #expect(try await cluster.statistic("done") == 10)
            #expect(try await cluster.statistic("deduplicated") == 0)
            #expect(try await cluster.leftovers() == [])
        }
    }

    // Two leaders, by SIGSTOP of the first.
    @Test func aLeaderThatSleptAdmitsNothingTwice() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            // A window of four, so that most of the batch is still in the intake when the leader changes.
            let window = ["--window", "4"]
            let first = try cluster.coordinator(window)
            try cluster.worker()
            try await cluster.waitUntilReady(workers: 1)
            let second = try cluster.coordinator(window)
            origin.hold()
            let submit = try cluster.submit((0..<40).map { origin.url("/\($0).png") })
            try await cluster.wait(untilRunning: 4)
            first.send(SIGSTOP)
            // Deletes the leader's lease, which would expire after ten seconds.
            try await cluster.client.send(["DEL", "megaton:{default}:2:leader"])
            let name = ":\(second.pid):"
            try await cluster.wait(for: ["leader"]) { client in
                try await client.send(["GET", "megaton:{default}:2:leader"]).string?.contains(name) == true
            }
            first.send(SIGCONT)
            // There is room for jobs now, while both coordinators may believe that they lead.
            origin.release()
            let summary = try await cluster.summary(of: submit)
            #expect(summary.jobs == 40 && summary.done == 40 && summary.failed == 0 && summary.deduplicated == 0)
            #expect(try await cluster.statistic("done") == 40)
            #expect(try await cluster.statistic("deduplicated") == 0)
            #expect((0..<40).allSatisfy { origin.count("/\($0).png") == 1 })
            #expect(try await cluster.client.send(["GET", "megaton:{default}:2:epoch"]).int ?? 0 >= 2)
            for coordinator in [first, second] {
                coordinator.send(SIGTERM)
                #expect(await coordinator.ending().code == 0, "\(coordinator.errors)")
            }
        }
    }

    // Broken JSON in the intake.
    @Test func anInvalidJobIsADeadLetterAndTheNextOneIsDone() async throws {
        try await FaultCluster.run { (cluster) async throws in
            let image = try cluster.directory.write(FaultCluster.image, to: "a.png")
            try await cluster.start(workers: [[]])
            let intake: RedisArgument = "megaton:{default}:jobs"
            try await cluster.client.send(["LPUSH", intake, #"{"source":"file:///a.png","#])
            try await cluster.client.send(["LPUSH", intake, .buffer(ByteBuffer(repeating: 0x61, count: 10_000_000))])
            try await cluster.push(URL(fileURLWithPath: image), id: "good")
            try await cluster.wait(untilDone: 1)
            #expect(try await cluster.statistic("failed") == 2)
            let dead = (try await cluster.client.send(["HKEYS", "megaton:{default}:2:deadinfo"]).array ?? [])
                .compactMap(\.string)
            #expect(dead.count == 2)
            for id in dead { #expect(try await cluster.deathCode(id) == "invalid_job") }
            #expect(try await cluster.leftovers() == [])
        }
    }

    // No coordinator at all.
    @Test func aWorkerAdmitsJobsIfThereIsNoLeader() async throws {
        try await FaultCluster.run { (cluster) async throws in
            let image = try cluster.directory.write(FaultCluster.image, to: "a.png")
            try cluster.worker()
            try await cluster.push(URL(fileURLWithPath: image), id: "a")
            try await cluster.wait(untilDone: 1)
            let leader = try await cluster.client.send(["GET", "megaton:{default}:2:leader"]).string
            #expect(leader?.hasPrefix("reserve:") == true)
            #expect(try await cluster.leftovers() == [])
        }
    }
}
