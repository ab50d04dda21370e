import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

/// `megaton explain`: the state of a source as text and as JSON.
@Suite(.timeLimit(.minutes(3))) struct ExplainCommandTests {
    /// Both forms of one explanation.
    private struct Explained {
        let text: String
        let json: Explanation

        var items: [Explanation.Item] { [json.original] + json.renditions }
    }

    private func explain(
        _ source: URL,
        _ options: [String] = [],
        in cluster: FaultCluster
    ) async throws -> Explained {
        let arguments = ["explain", source.absoluteString, "--rendition", "name=small,width=16"] + options
        let json = try await cluster.command(arguments + ["--json"])
        #expect(json.code == 0, "\(json.errors)")
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let explanation = try decoder.decode(Explanation.self, from: Data(json.output.utf8))
        let text = try await cluster.command(arguments)
        #expect(text.code == 0, "\(text.errors)")
        return Explained(text: text.output, json: explanation)
    }

    /// Pushes a job with the rendition that is explained.
    private func push(_ source: URL, to cluster: FaultCluster) async throws {
        try await cluster.push(
            fields: #""source":"\#(source.absoluteString)","renditions":[{"name":"small","width":16}],"#
                + #""reply":{"list":"client:explain"}"#
        )
    }

    @Test func theKeysAndTheNearestCacheAreShown() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            let near = cluster.directory.path + "/near"
            try await cluster.start(workers: [["--cache-policy", "all", "--local-cache", near]])
            let source = origin.url("/a.png")
            let none = try await explain(source, ["--local-cache", near], in: cluster)
            #expect(none.items.map(\.tier) == [.none, .none] && none.json.localCache == near)
            #expect(none.text.contains("  tier       none; no copy in \(near)\n"), "\(none.text)")
            // The second job reads from a cache what the first one has made.
            for _ in 0..<2 {
                try await push(source, to: cluster)
                #expect(try await cluster.outcome(in: "client:explain").status == .done)
            }
            // Originals are stored after their jobs have ended.
            var shared = try await explain(source, in: cluster)
            while shared.items.contains(where: { $0.tier == .none }) { shared = try await explain(source, in: cluster) }
            #expect(shared.items.map(\.tier) == [.sharedCache, .sharedCache] && shared.json.localCache == nil)
            for item in shared.items {
                let key = "megaton:\(item.key.prefix(1)):{\(item.key.dropFirst(2))}"
                #expect(try await cluster.client.send(["EXISTS", .string(key)]).int == 1)
                #expect(shared.text.contains("  key        \(item.key) at \(item.server)\n"), "\(shared.text)")
            }
            #expect(shared.text.contains("  tier       shared cache\n"), "\(shared.text)")
            let remark = "not examined: the memory of processes; --local-cache DIR examines the disk cache"
            #expect(shared.text.contains(remark), "\(shared.text)")
            // Copies are written in the background.
            var local = try await explain(source, ["--local-cache", near], in: cluster)
            while local.json.renditions.first?.copy == nil {
                local = try await explain(source, ["--local-cache", near], in: cluster)
            }
            let item = try #require(local.json.renditions.first)
            #expect(item.tier == .localCache && item.copy?.bytes == item.entry?.bytes)
            #expect((item.copy?.freshFor ?? 0) > 0)
            #expect(local.text.contains("  tier       local cache; the copy in \(near) has "), "\(local.text)")
        }
    }

    // Fault: the key lacked the bytes of the image, so that it was one that no worker uses.
    @Test func theImageOfAWatermarkIsPartOfTheKey() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            let marks = cluster.directory.path + "/marks"
            try FileManager.default.createDirectory(atPath: marks, withIntermediateDirectories: true)
            try TestImage.quarters(width: 4, height: 4).write(to: URL(fileURLWithPath: marks + "/mark.png"))
            try await cluster.start(workers: [["--cache-policy", "all", "--watermarks", marks]])
            let mark = #"{"name":"marked","width":16,"watermark":{"image":"mark.png"}}"#
            let source = origin.url("/a.png")
            let rest = #""renditions":[\#(mark)],"reply":{"list":"client:explain"}"#
            try await cluster.push(fields: #""source":"\#(source.absoluteString)",\#(rest)"#)
            #expect(try await cluster.outcome(in: "client:explain").status == .done)
            let options = ["--rendition", #"name=marked,width=16,watermark={"image":"mark.png"}"#]
            let explained = try await explain(source, options + ["--watermarks", marks], in: cluster)
            #expect(explained.json.renditions.last?.tier == .sharedCache, "\(explained.text)")
            let none = try await cluster.command(["explain", source.absoluteString] + options)
            #expect(none.code == 64 && none.errors.contains("--watermarks DIR"), "\(none.errors)")
        }
    }

    /// Fault: a file was called no URL, and the message about a missing Redis did not say that the cache of a run is
    /// private.
    @Test(arguments: [["explain"], ["cache", "show"], ["cache", "forget-failures"]])
    func filesAndPrivateCachesAreRefusedWithAReason(_ command: [String]) async throws {
        let directory = try TestDirectory()
        let path = try directory.write(TestImage.quarters(width: 8, height: 8), to: "a.png")
        for source in [path, "file://\(path)"] {
            let redis = ["--redis", "redis://127.0.0.1:1"]
            let ending = await (try ProgramUnderTest.megaton(command + [source] + redis)).ending()
            #expect(ending.code == 64 && ending.errors.contains("\(source) is a file"), "\(ending.errors)")
            #expect(ending.errors.contains("--force of megaton run"), "\(ending.errors)")
        }
        let none = await (try ProgramUnderTest.megaton(command + ["https://example.org/a.png"])).ending()
        #expect(none.code == 64 && none.errors.contains("The private Redis of a megaton run"), "\(none.errors)")
    }

    @Test func theHolderOfAFlightIsNamed() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            let worker = try await cluster.start(workers: [[]])[0]
            origin.hold()
            try await push(origin.url("/a.png"), to: cluster)
            await origin.waitForRequests("/a.png", count: 1)
            let explained = try await explain(origin.url("/a.png"), in: cluster)
            let flight = try #require(explained.json.renditions.first?.flight, "\(explained.text)")
            #expect(flight.owner.contains(":\(worker.pid):") && flight.left > 0 && !flight.hasWaiters, "\(flight)")
            #expect(explained.json.renditions.first?.next == "jobs wait for \(flight.owner)")
            let line = "  under way  at \(flight.owner), lease of "
            #expect(explained.text.contains(line) && explained.text.contains(", no other waits\n"), "\(explained.text)")
            #expect(explained.json.host?.fetching == 1 && explained.text.contains("  requests   1 under way"))
            origin.release()
            #expect(try await cluster.outcome(in: "client:explain").status == .done)
        }
    }

    @Test func aRememberedFailureIsShown() async throws {
        try await OriginServer.run(answer: { _ in .init(status: 404) }) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                try await cluster.start(workers: [[]])
                try await push(origin.url("/a.png"), to: cluster)
                #expect(try await cluster.outcome(in: "client:explain").error?.code == "not_found")
                let explained = try await explain(origin.url("/a.png"), in: cluster)
                let item = try #require(explained.items.first { $0.failure != nil }, "\(explained.text)")
                let failure = try #require(item.failure)
                #expect(failure.code == "not_found" && failure.left > 0 && !failure.isBinding, "\(failure)")
                let next = "\(item.name): jobs fail as not_found, without asking the origin\n"
                #expect(explained.text.contains(next), "\(explained.text)")
                #expect(explained.text.contains("  failure    \(failure.message) (for another "), "\(explained.text)")
            }
        }
    }

    /// Two paths that answer 429 stop their whole host for the time that they name, and halve its limits.
    @Test func theLimitsOfAHostAreShown() async throws {
        let answer = OriginServer.Answer(status: 429, headers: [("Retry-After", "100")])
        try await OriginServer.run(answer: { _ in answer }) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                try await cluster.start(workers: [[]])
                try await cluster.blockHost(of: origin)
                let explained = try await explain(origin.url("/three.png"), in: cluster)
                let host = try #require(explained.json.host, "\(explained.text)")
                #expect(host.name == "127.0.0.1:\(origin.port)" && host.factor == 0.5, "\(host)")
                #expect((1...100).contains(host.blockedFor) && host.openFor == 0, "\(host)")
                let limits = [
                    "host \(host.name)\n", "  limits     50 % of the usual ones\n", "  blocked    for another ",
                ]
                for line in limits { #expect(explained.text.contains(line), "\(line) in \(explained.text)") }
                let refused = try await explain(origin.url("/two.png"), in: cluster)
                #expect(refused.items.contains { $0.failure?.isBinding == true }, "\(refused.text)")
                #expect(refused.text.contains(", by the origin's Retry-After)"), "\(refused.text)")
            }
        }
    }
}
