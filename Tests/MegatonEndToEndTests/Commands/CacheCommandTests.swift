import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCLI
@testable import MegatonCluster

/// `megaton cache` on a cache that a worker has filled.
@Suite(.timeLimit(.minutes(3))) struct CacheCommandTests {
    /// Fault: `explain` had a remembered failure, of which `cache show` said nothing.
    @Test func aSourceWithoutEntriesHasItsFailure() {
        let url = "https://example.org/a.png"
        #expect(CacheShowCommand.lack(of: url, nil) == "the cache has no entry of \(url).")
        let failure = Explanation.Failure(code: "not_found", message: "404", left: 90, isBinding: false)
        let text = CacheShowCommand.lack(of: url, failure)
        #expect(text.contains("the failure not_found for another 1 min") && text.hasSuffix("megaton explain shows it."))
    }

    /// Two sources with two renditions each, and their cache.
    private struct Fixture {
        let server: RedisServerProcess
        let origin: OriginServer
        let directory: TestDirectory

        func megaton(_ arguments: [String]) async throws -> ProgramUnderTest.Ending {
            await (try ProgramUnderTest.megaton(arguments + ["--redis", server.url])).ending()
        }

        /// Makes all renditions, or finds them in the cache.
        ///
        /// - Returns: the number of renders.
        func fill() async throws -> Int {
            let lines = ["/a/1.png", "/b/2.png"].map { path in
                let url = origin.url(path).absoluteString + "?token=secret"
                return #"{"source":"\#(url)","renditions":[{"name":"small","width":16},{"name":"large","width":48}]}"#
            }
            let list = try directory.write(Data(lines.joined(separator: "\n").utf8), to: "list.jsonl")
            let ending = try await megaton(["submit", list, "--wait", "--json"])
            #expect(ending.code == 0, "\(ending.errors)")
            let json = try JSONSerialization.jsonObject(with: Data(ending.output.utf8)) as? [String: Any]
            return json?["renders"] as? Int ?? -1
        }

        /// The JSON objects of the lines that a command prints.
        func lines(_ arguments: [String]) async throws -> [[String: Any]] {
            let ending = try await megaton(arguments + ["--json"])
            #expect(ending.code == 0, "\(ending.errors)")
            return try ending.output.split(separator: "\n").compactMap {
                try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]
            }
        }

        func purge(_ arguments: [String]) async throws -> [String: Any] {
            let ending = try await megaton(["cache", "purge", "--json"] + arguments)
            #expect(ending.code == 0, "\(ending.errors)")
            return try #require(try JSONSerialization.jsonObject(with: Data(ending.output.utf8)) as? [String: Any])
        }
    }

    private func withCache(_ body: (Fixture) async throws -> Void) async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(
            answer: { path in
                if path.hasPrefix("/missing") { return .init(status: 404) }
                return .image(image, headers: [("ETag", "\"1\""), ("Cache-Control", "max-age=86400")])
            }
        ) { (origin) async throws in
            try await RedisServerProcess.run { (server) async throws in
                let coordinator = try ProgramUnderTest.megaton(["coordinator", "--redis", server.url])
                let worker = try ProgramUnderTest.megaton([
                    "worker", "--allow-private", "--cache-policy", "all", "--redis", server.url,
                ])
                let fixture = Fixture(server: server, origin: origin, directory: try TestDirectory())
                #expect(try await fixture.fill() == 4)
                // Originals are stored after their jobs have ended.
                while try await fixture.lines(["cache", "top"]).count < 6 {}
                try await body(fixture)
                for process in [worker, coordinator] { process.send(SIGTERM) }
                for process in [worker, coordinator] { #expect(await process.ending().code == 0) }
            }
        }
    }

    @Test func whatIsPurgedIsFetchedAndRenderedAgain() async throws {
        try await withCache { cache in
            let url = cache.origin.url("/a/1.png").absoluteString
            let dry = try await cache.purge([url, "--dry-run"])
            #expect(dry["originals"] as? Int == 1 && dry["renditions"] as? Int == 2)
            #expect(try await cache.fill() == 0, "nothing was deleted")
            let result = try await cache.purge([url])
            #expect(result["originals"] as? Int == 1 && result["renditions"] as? Int == 2)
            #expect(try await cache.fill() == 2 && cache.origin.total == 3)
            let again = try await cache.megaton(["cache", "purge", "https://example.org/none.png"])
            #expect(again.code == 1 && again.output.hasPrefix("0 originals and 0 renditions"), "\(again.errors)")
        }
    }

    @Test func aSelectionOfManyNeedsAConfirmation() async throws {
        try await withCache { cache in
            for selection in [["--host", "127.0.0.1"], ["--prefix", cache.origin.url("/").absoluteString]] {
                let refused = try await cache.megaton(["cache", "purge"] + selection)
                #expect(refused.code == 64 && refused.errors.contains("--yes"), "\(refused.errors)")
            }
            let named = try await cache.purge(["--rendition", "small", "--yes"])
            #expect(named["originals"] as? Int == 0 && named["renditions"] as? Int == 2)
            #expect(try await cache.fill() == 2 && cache.origin.total == 2)
            let prefix = try await cache.purge(["--prefix", cache.origin.url("/b/").absoluteString, "--yes"])
            #expect(prefix["originals"] as? Int == 1 && prefix["renditions"] as? Int == 2)
            let host = try await cache.purge(["--host", "127.0.0.1:\(cache.origin.port)", "--yes"])
            #expect(host["originals"] as? Int == 1 && host["renditions"] as? Int == 2)
            #expect(try await cache.fill() == 4)
        }
    }

    /// Fault: a purge that found no entry forgot the failures of the host, and did not ask.
    @Test func failuresAreForgottenOnlyAfterAQuestion() async throws {
        try await withCache { cache in
            let missing = cache.origin.url("/missing/x.png").absoluteString
            #expect(try await cache.megaton(["submit", missing, "--wait"]).code == 2)
            let selection = ["--prefix", cache.origin.url("/missing/").absoluteString]
            let purge = ["cache", "purge", "--redis", cache.server.url]
            let home = try RunTests.Home()
            let terminal = try TestTerminal()
            terminal.type("n")
            let refused = try await terminal.megaton(purge + selection, home)
            let question = terminal.text
            #expect(refused.code == 1, "\(refused.output)")
            #expect(question.contains("from the cache, and forget "), "\(question)")
            let dry = try await cache.purge(selection + ["--dry-run"])
            let failures = try #require(dry["failures"] as? Int)
            #expect(failures > 0 && dry["originals"] as? Int == 0, "they are still there")
            let done = try await cache.purge(selection + ["--yes"])
            #expect(done["failures"] as? Int == failures)
            let empty = try await terminal.megaton(purge + selection, home)
            let text = terminal.text
            #expect(empty.code == 1 && empty.output.hasPrefix("0 originals") && !text.contains("[y/N]"), "\(text)")
        }
    }

    @Test func entriesAreShownWithTheirSources() async throws {
        try await withCache { cache in
            let url = cache.origin.url("/a/1.png").absoluteString
            let entries = try await cache.lines(["cache", "show", url])
            #expect(entries.count == 3 && entries.allSatisfy { $0["source"] as? String == url })
            #expect(!entries.description.contains("secret"), "the query may be secret")
            #expect(
                entries.allSatisfy { $0["etag"] as? String == "\"1\"" && ($0["fresh_for"] as? Double ?? 0) > 86_000 }
            )
            let small = try await cache.lines(["cache", "show", url, "--rendition", "small"])
            #expect(small.count == 1 && small[0]["width"] as? Int == 16)
            let top = try await cache.lines(["cache", "top", "--limit", "5"])
            let sizes = top.compactMap { $0["bytes"] as? Int }
            #expect(sizes.count == 5 && sizes == sizes.sorted(by: >))
            let hits = try await cache.megaton(["cache", "top", "--by", "hits"])
            #expect(hits.code == 69 && hits.errors.contains("allkeys-lfu"), "\(hits.errors)")
            let none = try await cache.megaton(["cache", "show", "https://example.org/none.png"])
            #expect(none.code == 1 && none.errors.contains("no entry"), "\(none.errors)")
            let table = try await cache.megaton(["cache", "top"])
            #expect(table.code == 0 && table.output.contains("rendition small 16x16"), "\(table.output)")
        }
    }

    /// The copies of one entry stand for those of a source with many queries.
    @Test func moreEntriesThanAreShownAreMentioned() async throws {
        try await withCache { cache in
            let client = cache.server.client()
            defer { client.close() }
            let keys = try await client.send(["KEYS", "megaton:o:{*"]).array?.compactMap(\.string) ?? []
            let metadata = try await client.pipeline(keys.map { ["HGET", .string($0), "m"] })
            let index = try #require(metadata.firstIndex { $0.string?.contains("1.png") == true })
            let copy: @Sendable (Int) -> RedisCommand = { number in
                let name = String(repeating: "0", count: 64 - "\(number)".count) + "\(number)"
                return ["COPY", .string(keys[index]), .string("megaton:o:{\(name)}")]
            }
            let url = cache.origin.url("/a/1.png").absoluteString
            // With the original and its two renditions there are as many as are shown.
            for start in stride(from: 1, through: 9_997, by: 1_000) {
                _ = try await client.pipeline((start..<min(start + 1_000, 9_998)).map(copy))
            }
            let all = try await cache.megaton(["cache", "show", url, "--json"])
            #expect(all.code == 0 && all.output.split(separator: "\n").count == 10_000, "\(all.errors)")
            #expect(!all.errors.contains("more exist"), "\(all.errors)")
            try await client.send(copy(9_998))
            let some = try await cache.megaton(["cache", "show", url, "--json"])
            #expect(some.code == 0 && some.output.split(separator: "\n").count == 10_000)
            #expect(some.errors.contains("the 10000 largest entries are shown, and more exist"), "\(some.errors)")
        }
    }

    @Test func aSourceIsExplained() async throws {
        try await withCache { cache in
            let url = cache.origin.url("/a/1.png").absoluteString + "?token=secret"
            let arguments = ["explain", url, "--rendition", "name=small,width=16", "--rendition", "name=new,width=20"]
            let ending = try await cache.megaton(arguments + ["--json"])
            #expect(ending.code == 0 && !ending.output.contains("secret"), "\(ending.errors)")
            let json = try JSONSerialization.jsonObject(with: Data(ending.output.utf8)) as? [String: Any]
            let original = try #require(json?["original"] as? [String: Any])
            #expect((original["entry"] as? [String: Any])?["etag"] as? String == "\"1\"")
            let renditions = try #require(json?["renditions"] as? [[String: Any]])
            #expect(renditions.map { $0["name"] as? String } == ["small", "new"])
            #expect(renditions[0]["entry"] != nil && renditions[1]["entry"] == nil)
            let engine = try #require(renditions[1]["engine"] as? [String: Any])
            #expect(engine["engine"] as? String == nil, "a PNG can have pixels that planes do not have")
            #expect((engine["reason"] as? String)?.contains("planes if the image is whole") == true, "\(engine)")
            let text = try await cache.megaton(arguments)
            #expect(text.output.contains("small: it is fresh and answers jobs"), "\(text.output)")
            #expect(text.output.contains("new: it is rendered"), "\(text.output)")
            #expect(try await cache.fill() == 0, "nothing was changed")
        }
    }

    @Test func ratesComeFromTheCounters() async throws {
        try await withCache { cache in
            let rates = try await cache.lines(["cache", "watch", "--interval", "0.1", "--count", "2"])
            #expect(rates.count == 2 && rates.allSatisfy { ($0["seconds"] as? Double ?? 0) >= 0.1 })
            #expect(rates.allSatisfy { ($0["hits"] as? Double ?? -1) >= 0 && $0["renders"] as? Double != nil })
        }
    }

    @Test(arguments: [
        (["purge"], "Name URLs"), (["purge", "nonsense"], "not a URL"), (["purge", "--prefix", "x"], "--prefix"),
        (["top", "--by", "size"], "bytes, hits or age"), (["watch", "--interval", "0"], "--interval"),
    ])
    func wrongUsageIsRefused(_ arguments: [String], _ text: String) async throws {
        let ending = await (try ProgramUnderTest.megaton(["cache"] + arguments)).ending()
        #expect(ending.code == 64 && ending.errors.contains(text), "\(ending.errors)")
    }
}
