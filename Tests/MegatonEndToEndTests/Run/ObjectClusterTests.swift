import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Testing

/// A cluster whose workers share no disk: outputs of submissions and of pushed jobs are objects.
@Suite(.timeLimit(.minutes(5))) struct ObjectClusterTests {
    /// A different image at each path that begins with a number.
    @Sendable private static func answer(_ path: String) -> OriginServer.Answer {
        let number = Int(path.dropFirst().prefix { $0.isNumber }) ?? 0
        return .image(TestImage.quarters(width: 64, height: 64, seed: UInt8(truncatingIfNeeded: number * 20)))
    }

    /// One server for all: it takes seconds to start.
    @Test func workersWithoutADiskWriteObjects() async throws {
        try await OriginServer.run(answer: Self.answer) { (origin) async throws in
            try await MotoServer.run { (moto) async throws in
                try await FaultCluster.run { (cluster) async throws in
                    let options = try moto.options(in: cluster.directory)
                    let worker = options + ["--allow-bucket", "\(MotoServer.bucket)/web"]
                    try await cluster.start(workers: [worker, worker], hasDisk: false)
                    try await submission(cluster, moto, origin)
                    try await pushedJob(cluster, moto, origin)
                    try await largeObject(cluster, moto, origin)
                }
            }
        }
    }

    /// A table whose labels and ids are the names of the objects.
    private func submission(_ cluster: FaultCluster, _ moto: MotoServer, _ origin: OriginServer) async throws {
        let names = (0..<12).map { (id: "s-\($0)", set: $0 % 2 == 0 ? "even" : "odd") }
        let rows = names.enumerated().map { index, name in
            "\(name.id),\(origin.url("/\(index).png").absoluteString),\(name.set)"
        }
        let table = (["sku,photo,set"] + rows).joined(separator: "\n")
        let list = try cluster.directory.write(Data(table.utf8), to: "list.csv")
        let submit = try cluster.submit(
            list: list,
            [
                "--url-column", "photo", "--id-column", "sku", "-o", "s3://\(MotoServer.bucket)/web/2026/", "--name",
                "{label.set}/{id}.{ext}", "--size", "8", "--format", "png", "--ledger",
                "\(cluster.directory.path)/ledger.jsonl",
            ]
        )
        let summary = try await cluster.summary(of: submit)
        #expect(summary.done == 12 && summary.failed == 0)
        let outputs = try cluster.lines(of: "ledger.jsonl", as: JobOutcome.self).flatMap(\.outputs)
        let expected = names.map { "s3://\(MotoServer.bucket)/web/2026/\($0.set)/\($0.id).png" }
        #expect(outputs.compactMap(\.path).sorted() == expected.sorted())
        #expect(Set(outputs.map(\.sha256)).count == 12, "each object has an image of its own")
        for output in outputs { try await moto.check(output) }
    }

    private func pushedJob(_ cluster: FaultCluster, _ moto: MotoServer, _ origin: OriginServer) async throws {
        let renditions = #"[{"name":"small","width":8,"format":"webp"},{"name":"tiny","width":4}]"#
        let outcome = try await outcome("pushed", origin.url("/1.png"), renditions, cluster)
        #expect(outcome.status == .done, "\(outcome)")
        let expected = ["pushed-small.webp", "pushed-tiny.jpg"].map { "s3://\(MotoServer.bucket)/web/lists/\($0)" }
        #expect(outcome.outputs.compactMap(\.path) == expected)
        for output in outcome.outputs { try await moto.check(output) }
    }

    /// An uncompressed image of more than the 16 MiB that one request writes, from a small source.
    private func largeObject(_ cluster: FaultCluster, _ moto: MotoServer, _ origin: OriginServer) async throws {
        let size = #""width":2500,"height":2500,"enlarge":true"#
        let renditions = #"[{"name":"large",\#(size),"format":"png","effort":0}]"#
        let outcome = try await outcome("large", origin.url("/2.png"), renditions, cluster)
        let output = try #require(outcome.outputs.first, "\(outcome)")
        #expect(output.bytes > 16 << 20 && output.path == "s3://\(MotoServer.bucket)/web/lists/large-large.png")
        // The entity tag of an upload in parts ends with their number.
        let tag = try await moto.check(output)?.entityTag ?? ""
        #expect(tag.hasSuffix("-3\""), "\(tag)")
    }

    /// Pushes a job as a client of another language does, and waits for its outcome.
    private func outcome(
        _ id: String,
        _ source: URL,
        _ renditions: String,
        _ cluster: FaultCluster
    ) async throws -> JobOutcome {
        let output = "s3://\(MotoServer.bucket)/web/lists/{id}-{name}.{ext}"
        let job =
            #"{"id":"\#(id)","source":"\#(source.absoluteString)","output":"\#(output)","renditions":\#(renditions),"#
            + #""reply":{"list":"client:\#(id)"}}"#
        try await cluster.client.send(["LPUSH", "megaton:{default}:jobs", .string(job)])
        return try await cluster.outcome(in: "client:\(id)")
    }

    private static let otherBuckets: [[String]] = [[], ["--allow-bucket", "\(MotoServer.bucket)/elsewhere"]]

    /// It refuses before it asks the store, and so needs none.
    @Test(arguments: otherBuckets)
    func aWorkerWithoutTheBucketNamesTheOption(_ options: [String]) async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try await cluster.start(workers: [options], hasDisk: false)
            let submit = try cluster.submit(
                [origin.url("/a.png")],
                ["-o", "s3://\(MotoServer.bucket)/web/", "--ledger", "\(cluster.directory.path)/ledger.jsonl"]
            )
            let summary = try await cluster.summary(of: submit, code: 2)
            #expect(summary.done == 0 && summary.failed == 1)
            let outcomes = try cluster.lines(of: "ledger.jsonl", as: JobOutcome.self)
            let error = try #require(outcomes.first?.error)
            #expect(outcomes.count == 1 && error.code == "forbidden" && !error.retryable)
            #expect(error.message.contains("with --allow-bucket"), "\(error.message)")
        }
    }
}
