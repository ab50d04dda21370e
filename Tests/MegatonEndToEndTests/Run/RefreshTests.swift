import Foundation
import MegatonCluster
import MegatonTestSupport
import Synchronization
import Testing

/// An origin whose image changes while its responses are fresh, and two worker processes with one cache.
@Suite(.timeLimit(.minutes(4))) struct RefreshTests {
    /// One image with an entity tag, which is fresh for a day.
    private final class Site: Sendable {
        private struct State {
            var version = 1
            var bodies = 0
            var confirmations = 0
        }

        private let state = Mutex(State())

        /// Number of images sent so far.
        var bodies: Int { state.withLock { $0.bodies } }
        /// Number of responses 304 so far.
        var confirmations: Int { state.withLock { $0.confirmations } }

        func change() { state.withLock { $0.version += 1 } }

        func answer(_ request: OriginServer.Request) -> OriginServer.Answer {
            state.withLock { state -> OriginServer.Answer in
                let headers = [("ETag", "\"\(state.version)\""), ("Cache-Control", "max-age=86400")]
                if request.headers["if-none-match"] == "\"\(state.version)\"" {
                    state.confirmations += 1
                    return OriginServer.Answer(status: 304, headers: headers)
                }
                state.bodies += 1
                return .image(
                    TestImage.quarters(width: 64, height: 64, seed: UInt8(state.version * 40)),
                    headers: headers
                )
            }
        }
    }

    /// A cluster of real processes, and what a client asks of it.
    private struct Fleet {
        let server: RedisServerProcess
        let directory: TestDirectory
        let origin: OriginServer

        var output: String { directory.path + "/out" }

        /// Submits the image, waits, and returns the summary and the SHA-256 of the output file.
        func submit(_ options: [String] = []) async throws -> (summary: [String: Any], sha256: String) {
            let ledger = directory.path + "/ledger-\(UInt64.random(in: .min ... .max)).jsonl"
            let arguments = ["submit", origin.url("/a.png").absoluteString, "--output", output, "--ledger", ledger]
            let program = try ProgramUnderTest.megaton(
                arguments + ["--wait", "--json", "--redis", server.url] + options
            )
            let ending = await program.ending()
            #expect(ending.code == 0, "\(ending.errors)")
            let json = try JSONSerialization.jsonObject(with: Data(ending.output.utf8)) as? [String: Any]
            let line = try String(contentsOfFile: ledger, encoding: .utf8).split(separator: "\n").first ?? ""
            let outcome = try JSONDecoder().decode(JobOutcome.self, from: Data(line.utf8))
            return (try #require(json), outcome.outputs.first?.sha256 ?? "")
        }

        /// Bytes of the only output file.
        func file() throws -> Data {
            let names = directory.files.filter { $0.hasPrefix("out/") }
            #expect(names.count == 1, "\(names)")
            return try Data(contentsOf: URL(fileURLWithPath: directory.path + "/" + (names.first ?? "")))
        }
    }

    /// Runs the body with a coordinator and workers with these options; each starts when it is used first.
    private func withFleet(
        workers options: [[String]],
        _ body: (Fleet, Site, (Int) throws -> ProgramUnderTest) async throws -> Void
    ) async throws {
        let site = Site()
        try await OriginServer.run(responding: { site.answer($0) }) { (origin) async throws in
            try await RedisServerProcess.run { (server) async throws in
                let directory = try TestDirectory()
                let coordinator = try ProgramUnderTest.megaton(["coordinator", "--redis", server.url])
                let fleet = Fleet(server: server, directory: directory, origin: origin)
                try await body(fleet, site) { index in
                    try ProgramUnderTest.megaton(
                        ["worker", "--allow-root", directory.path, "--allow-private", "--redis", server.url]
                            + options[index]
                    )
                }
                coordinator.send(SIGTERM)
                _ = await coordinator.ending()
            }
        }
    }

    private func end(_ worker: ProgramUnderTest) async {
        worker.send(SIGTERM)
        #expect(await worker.ending().code == 0, "\(worker.errors)")
    }

    /// Fault: the next normal run wrote the former thumbnail back.
    @Test(arguments: ["reused", "all"])
    func aRefreshReplacesWhatHasChangedForAllLaterRuns(_ policy: String) async throws {
        try await withFleet(workers: Array(repeating: ["--cache-policy", policy], count: 2)) { fleet, site, start in
            let workers = [try start(0), try start(1)]
            let first = try await fleet.submit()
            let unchanged = try await fleet.submit(["--refresh"])
            #expect(unchanged.sha256 == first.sha256)
            #expect(unchanged.summary["renders"] as? Int == 0 && unchanged.summary["origin_fetches"] as? Int == 1)
            #expect(site.confirmations == 1 && site.bodies == 1, "asked conditionally, although it was fresh")
            site.change()
            #expect(try await fleet.submit().sha256 == first.sha256, "without the option the cache answers for a day")
            let new = try await fleet.submit(["--refresh"])
            #expect(new.sha256 != first.sha256 && new.summary["renders"] as? Int == 1)
            let file = try fleet.file()
            // Whichever worker has it: neither its memory nor the shared cache has the former image.
            for _ in 0..<4 {
                let later = try await fleet.submit()
                #expect(later.sha256 == new.sha256 && later.summary["renders"] as? Int == 0)
                #expect(try fleet.file() == file)
            }
            #expect(site.bodies == 2)
            for worker in workers { await end(worker) }
        }
    }

    /// Fault: the image that a run without the cache had made was replaced by the former one from the cache.
    @Test func aRunWithoutTheCacheDropsWhatIsOutdatedThere() async throws {
        try await withFleet(workers: [[], ["--cache-policy", "none"]]) { fleet, site, start in
            var worker = try start(0)
            let first = try await fleet.submit()
            await end(worker)
            site.change()
            worker = try start(1)
            let new = try await fleet.submit()
            #expect(new.sha256 != first.sha256)
            let file = try fleet.file()
            await end(worker)
            worker = try start(0)
            let later = try await fleet.submit()
            #expect(later.sha256 == new.sha256)
            #expect(try fleet.file() == file)
            await end(worker)
        }
    }

    /// Runs that share a cache directory: each has a private Redis, which loads the cache that the last one saved.
    @Test func aRefreshOfARunReplacesWhatHasChangedForLaterRuns() async throws {
        let site = Site()
        try await OriginServer.run(responding: { site.answer($0) }) { (origin) async throws in
            let home = try RunTests.Home()
            let arguments = [origin.url("/a.png").absoluteString, "--allow-private", "--workers", "1"]
            func run(_ options: [String] = []) async throws -> (renders: Int?, sha256: String) {
                let ending = try await home.run(arguments + options)
                #expect(ending.code == 0, "\(ending.errors)")
                #expect(home.outputs.count == 1, "\(home.outputs)")
                let file = URL(fileURLWithPath: "\(home.output)/\(home.outputs.first ?? "")")
                let sha256 = Checksum.sha256(try Data(contentsOf: file))
                #expect(try home.ledger().last?.outputs.first?.sha256 == sha256, "the ledger says what was written")
                return (try home.summary(ending)["renders"] as? Int, sha256)
            }
            let first = try await run()
            site.change()
            let cached = try await run()
            #expect(cached.sha256 == first.sha256 && cached.renders == 0, "its cache answers for a day")
            let new = try await run(["--refresh"])
            #expect(new.sha256 != first.sha256 && new.renders == 1)
            let later = try await run()
            #expect(later.sha256 == new.sha256 && later.renders == 0)
            #expect(site.bodies == 2)
        }
    }

    @Test func aPushedJobWithRefreshReplacesWhatHasChangedForLaterJobs() async throws {
        let site = Site()
        try await OriginServer.run(responding: { site.answer($0) }) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                try await cluster.start(workers: [FaultCluster.hasty])
                let source = origin.url("/a.png").absoluteString
                let output = "file://\(cluster.directory.path)/{stem}.{ext}"
                func push(refreshes: Bool = false) async throws -> String {
                    try await cluster.push(
                        fields: #""source":"\#(source)","output":"\#(output)","refresh":\#(refreshes),"#
                            + #""reply":{"list":"client:refresh"}"#
                    )
                    let outcome = try await cluster.outcome(in: "client:refresh")
                    #expect(outcome.status == .done, "\(outcome)")
                    let file = URL(fileURLWithPath: "\(cluster.directory.path)/a.jpg")
                    let sha256 = Checksum.sha256(try Data(contentsOf: file))
                    #expect(outcome.outputs.map(\.sha256) == [sha256])
                    return sha256
                }
                let first = try await push()
                #expect(try await push(refreshes: true) == first)
                #expect(site.confirmations == 1 && site.bodies == 1, "asked conditionally, although it was fresh")
                site.change()
                #expect(try await push() == first, "without the field the cache answers for a day")
                let new = try await push(refreshes: true)
                #expect(new != first)
                #expect(try await push() == new)
                #expect(site.bodies == 2)
            }
        }
    }

    @Test func forceAndRefreshExcludeEachOther() async throws {
        let program = try ProgramUnderTest.megaton(["run", "https://example.org/a.jpg", "--force", "--refresh"])
        let ending = await program.ending()
        #expect(ending.code == 64 && ending.errors.contains("--force and --refresh exclude each other"))
    }
}
