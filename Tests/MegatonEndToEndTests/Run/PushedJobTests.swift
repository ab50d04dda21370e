import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

/// The fields `batchSize` and `key` of jobs that any client pushes with LPUSH.
@Suite(.timeLimit(.minutes(3))) struct PushedJobTests {
    /// Runs the body with a coordinator and a worker, and an origin that lacks `/missing.png`.
    private func withCluster(_ body: (FaultCluster, OriginServer) async throws -> Void) async throws {
        let image = FaultCluster.image
        let answer: @Sendable (String) -> OriginServer.Answer = { path in
            path == "/missing.png" ? .init(status: 404) : .image(image)
        }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                try await cluster.start(workers: [FaultCluster.hasty])
                try await body(cluster, origin)
            }
        }
    }

    // MARK: - batchSize

    /// Pushes a job of a batch of three.
    private func pushOfThree(_ source: URL, to batch: String, _ cluster: FaultCluster) async throws {
        try await cluster.push(
            fields: #""batch":"\#(batch)","batchSize":3,"source":"\#(source.absoluteString)""#
        )
    }

    @Test func aBatchEndsWithTheNumberOfJobsThatTheyName() async throws {
        try await withCluster { (cluster, origin) async throws in
            for path in ["/a.png", "/b.png"] { try await pushOfThree(origin.url(path), to: "spring", cluster) }
            try await cluster.wait(untilDone: 2)
            let two = try await cluster.command(["batch", "show", "spring"])
            #expect(two.code == 0 && two.output.contains(#""state" : "running""#), "\(two.output)\(two.errors)")
            let wait = try ProgramUnderTest.megaton([
                "batch", "wait", "spring", "--timeout", "60", "--redis", cluster.server.url,
            ])
            try await pushOfThree(origin.url("/c.png"), to: "spring", cluster)
            let ending = await wait.ending()
            #expect(ending.code == 0, "\(ending.errors)")
            #expect(ending.output.contains(#""state" : "finished""#) && ending.output.contains(#""done" : 3"#))
            #expect(!ending.errors.contains("the batch is open"), "its jobs have said how many they are")
        }
    }

    @Test func aFailedJobOfSuchABatchCountsToo() async throws {
        try await withCluster { (cluster, origin) async throws in
            for path in ["/a.png", "/missing.png", "/c.png"] {
                try await pushOfThree(origin.url(path), to: "autumn", cluster)
            }
            try await cluster.wait(for: ["batch:autumn"]) { client in
                try await client.send(["EXISTS", "megaton:{default}:2:batch:autumn"]).int == 1
            }
            let ending = try await cluster.command(["batch", "wait", "autumn", "--timeout", "60"])
            #expect(ending.code == 2, "\(ending.errors)")
            for field in [#""state" : "finished""#, #""done" : 2"#, #""failed" : 1"#, #""submitted" : 3"#] {
                #expect(ending.output.contains(field), "\(field) in \(ending.output)")
            }
        }
    }

    // Fault: nothing showed that such a batch waits for jobs that have not come.
    @Test func aBatchThatLacksJobsSaysSo() async throws {
        try await withCluster { (cluster, origin) async throws in
            try await pushOfThree(origin.url("/a.png"), to: "winter", cluster)
            try await cluster.wait(for: ["batch:winter"]) { client in
                try await client.send(["HGET", "megaton:{default}:2:batch:winter", "done"]).int == 1
            }
            let wait = try await cluster.command(["batch", "wait", "winter", "--timeout", "1"])
            #expect(wait.code == 75 && wait.errors.contains("waits for 2 more jobs"), "\(wait.errors)")
            let shown = try await cluster.command(["batch", "list"])
            #expect(shown.output.contains("0 deduplicated of 1, 3 expected"), "\(shown.output)")
            let closed = try await cluster.command(["batch", "close", "winter"])
            #expect(closed.output.contains("winter  finished"), "\(closed.output)")
            #expect(!closed.output.contains("expected"), "\(closed.output)")
        }
    }

    // MARK: - key

    /// Pushes a job with the idempotency key `upload 17` and returns its outcome.
    private func outcome(
        ofJob id: String,
        _ source: URL,
        batch: String = "",
        _ cluster: FaultCluster
    ) async throws -> JobOutcome {
        let batch = batch.isEmpty ? "" : #""batch":"\#(batch)","batchSize":2,"#
        let output = "file://\(cluster.directory.path)/out/{id}.{ext}"
        try await cluster.push(
            fields: #""id":"\#(id)","key":"upload 17",\#(batch)"source":"\#(source.absoluteString)","#
                + #""output":"\#(output)","reply":{"list":"client:once"}"#
        )
        return try await cluster.outcome(in: "client:once")
    }

    @Test func aSecondJobWithAKeyHasTheOutcomeOfTheFirst() async throws {
        try await withCluster { (cluster, origin) async throws in
            let source = origin.url("/a.png")
            let first = try await outcome(ofJob: "first", source, batch: "once", cluster)
            #expect(first.id == "first" && first.status == .done && first.attempts == 1, "\(first)")
            #expect(first.outputs.map(\.path) == ["\(cluster.directory.path)/out/first.jpg"])
            let second = try await outcome(ofJob: "second", source, batch: "once", cluster)
            #expect(second.id == "second" && second.status == .deduplicated && second.error == nil, "\(second)")
            #expect(second.outputs == first.outputs && second.attempts == 0, "\(second)")
            #expect(cluster.directory.files.filter { $0.hasPrefix("out/") } == ["out/first.jpg"])
            let ending = try await cluster.command(["batch", "wait", "once", "--timeout", "60"])
            #expect(ending.code == 0, "\(ending.errors)")
            for field in [#""done" : 1"#, #""deduplicated" : 1"#, #""renders" : 1"#, #""origin_fetches" : 1"#] {
                #expect(ending.output.contains(field), "\(field) in \(ending.output)")
            }
            #expect(origin.total == 1)
        }
    }

    @Test func aSecondJobWithTheKeyOfAFailedOneHasItsError() async throws {
        try await withCluster { (cluster, origin) async throws in
            let first = try await outcome(ofJob: "first", origin.url("/missing.png"), cluster)
            #expect(first.status == .failed && first.error?.code == "not_found", "\(first)")
            // Another source: the key alone decides.
            let second = try await outcome(ofJob: "second", origin.url("/a.png"), cluster)
            #expect(second.status == .deduplicated && second.error == first.error && second.attempts == 0, "\(second)")
            #expect(second.outputs.isEmpty && origin.total == 1)
        }
    }
}
