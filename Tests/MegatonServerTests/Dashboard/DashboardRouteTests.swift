import Foundation
import Hummingbird
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster
@testable import MegatonServer

/// The files and the data of the dashboard.
@Suite(.timeLimit(.minutes(2))) struct DashboardRouteTests {
    @Test func theFilesMayLoadNothingFromElsewhere() throws {
        let paths = DashboardPage.files.map(\.path)
        #expect(paths == ["/", "/dashboard.css", "/dashboard.js", "/elements.js", "/sections.js", "/thumbnails.js"])
        for file in DashboardPage.files {
            let headers = DashboardPage.response(file).headers
            #expect(headers[.contentType] == file.type)
            #expect(headers[.contentSecurityPolicy] == DashboardPage.policy)
            #expect(headers[.xContentTypeOptions] == "nosniff")
            let text = String(decoding: file.bytes, as: UTF8.self)
            // Such a style or script would have no effect, and a text that is taken for HTML could be one.
            for word in [" style=", "<style", " onclick=", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval("] {
                #expect(!text.contains(word), "\(file.path) has \(word)")
            }
            let links = text.matches(of: /https?:\/\/[^"' ]+/).map { String($0.output) }
            #expect(links.allSatisfy { $0 == "http://www.w3.org/2000/svg" }, "\(file.path): \(links)")
            for module in text.matches(of: /from "\.([^"]+)";/) {
                #expect(paths.contains(String(module.output.1)), "\(file.path) imports \(module.output.0)")
            }
        }
    }

    @Test func oneStateHasAllParts() async throws {
        try await APIServer.run { (server) async throws in
            try await server.makeBatch("spring", outcomes: 3, isFinished: false)
            let answer = try await server.ask("dashboard")
            #expect(answer.status == 200 && answer.field("Cache-Control") == "no-store")
            let object = try answer.object()
            #expect(object["may_change"] as? Bool == true)
            #expect((object["history"] as? [Any])?.count == 1)
            let snapshot = try #require(object["snapshot"] as? [String: Any])
            let batches = try #require(snapshot["batches"] as? [[String: Any]])
            #expect(batches.first?["batch"] as? String == "spring" && batches.first?["submitted"] as? Int == 3)
            let queue = try #require(snapshot["queue"] as? [String: Any])
            #expect(queue["intake"] as? Int == 3 && queue["is_known"] as? Bool == true)
            #expect(try await server.ask("dashboard?a=1").status == 400)
        }
    }

    @Test func aHostHasItsLastFailure() async throws {
        try await APIServer.run { (server) async throws in
            let later = Int(Date().timeIntervalSince1970 * 1000) + 100_000
            let state = "0 1 1 0 5 \(later) 0 200000 0 0 0 1 timeout:+no+answer"
            _ = try await server.send(["HSET", .string(APIServer.keys.rate), "failing.test:443", .string(state)])
            let snapshot = try #require(try await server.ask("dashboard").object()["snapshot"] as? [String: Any])
            let hosts = try #require(snapshot["hosts"] as? [String: Any])
            let restricted = try #require(hosts["restricted"] as? [[String: Any]])
            #expect(restricted.map { $0["last_failure"] as? String } == ["timeout: no answer"])
        }
    }

    @Test func theLastThumbnailsAreShown() async throws {
        try await APIServer.run { (server) async throws in
            let stored = [
                #"{"id":"a","source":"s","width":40,"height":30,"thumbHash":"1QcSHQRnh493V4dIh4eXh1h4kJUI","time":7}"#,
                #"{"id":"b","batch":"s","source":"s","width":0,"height":1,"thumbHash":"","time":8}"#, "no JSON",
            ]
            let key = RedisArgument.string(APIServer.keys.thumbnails)
            for text in stored { _ = try await server.send(["RPUSH", key, .string(text)]) }
            let snapshot = try #require(try await server.ask("dashboard").object()["snapshot"] as? [String: Any])
            let thumbnails = try #require(snapshot["thumbnails"] as? [[String: Any]])
            #expect(thumbnails.count == 1, "those of other programs are left out")
            #expect(thumbnails.first?["id"] as? String == "a" && thumbnails.first?["width"] as? Int == 40)
            #expect(thumbnails.first?["thumb_hash"] as? String == "1QcSHQRnh493V4dIh4eXh1h4kJUI")
        }
    }

    /// A key that another program has written hides one part, and not the whole page.
    @Test(arguments: [
        (APIServer.keys.rate, "hosts"), (APIServer.keys.dead, "dead jobs"),
        (APIServer.keys.ready(.normal), "ready jobs"), (APIServer.keys.batches, "batches"),
        (APIServer.keys.stat, "counters of the cache"), (APIServer.keys.thumbnails, "last thumbnails"),
    ])
    func aDamagedPartIsNamed(_ key: String, _ part: String) async throws {
        try await APIServer.run { (server) async throws in
            _ = try await server.send(["SET", .string(key), "another program's"])
            let answer = try await server.ask("dashboard")
            #expect(answer.status == 200, "\(answer.body)")
            let snapshot = try #require(try answer.object()["snapshot"] as? [String: Any])
            let queue = try #require(snapshot["queue"] as? [String: Any])
            let warnings = try #require(queue["warnings"] as? [String])
            let sentence = "These parts cannot be shown, as a key of the queue has another type than its own: \(part)."
            #expect(warnings.contains { $0.hasPrefix(sentence) }, "\(warnings)")
            #expect(snapshot["worker_count"] as? Int == 0, "other parts are shown")
        }
    }

    private static func warnings(_ server: APIServer) async throws -> [String] {
        let snapshot = try #require(try await server.ask("dashboard").object()["snapshot"] as? [String: Any])
        let queue = try #require(snapshot["queue"] as? [String: Any])
        return try #require(queue["warnings"] as? [String])
    }

    /// Fault: a control Redis that refused all writes looked as always.
    @Test func aFullControlRedisHasAWarning() async throws {
        try await APIServer.run { (server) async throws in
            _ = try await server.send(["CONFIG", "SET", "maxmemory", "1"])
            let warnings = try await Self.warnings(server)
            #expect(warnings.count == 1 && warnings[0].hasPrefix("control Redis at unix:/"), "\(warnings)")
            #expect(warnings.first?.contains("Redis refuses new jobs. Raise maxmemory.") == true, "\(warnings)")
        }
    }

    /// Fault: a fleet without workers looked as one that has much to do.
    @Test func jobsThatWaitWithoutAWorkerHaveAWarning() async throws {
        try await APIServer.run { (server) async throws in
            try await server.makeBatch("spring", outcomes: 3, isFinished: false)
            #expect(try await Self.warnings(server) == ["no worker is running; 3 jobs wait. Start megaton worker."])
        }
    }

    /// Fault: a cache that had room for small entries, and refused large ones, did not count as full.
    @Test func aCacheThatHasRefusedEntriesHasAWarning() async throws {
        try await APIServer.run { (server) async throws in
            let counter = RedisCommand(["HINCRBY", .string(APIServer.keys.stat), "cache_full", "3"])
            _ = try await server.send(counter)
            let stream = try server.start("dashboard/events")
            try await stream.waitForOutput { $0.contains("event: snapshot\n") }
            #expect(try await Self.warnings(server).isEmpty, "they were refused before the first reading")
            _ = try await server.send(counter)
            try await stream.waitForOutput { $0.contains("the shared cache refuses new entries") }
        }
    }

    @Test func aServerThatDoesNotEvictIsFullOnceEntriesAreRefused() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let client = redis.client()
            defer { client.close() }
            let inspector = Inspector(queue: JobQueue(client, keys: QueueKeys()), cache: client)
            let memory = await inspector.cacheMemory()
            let statistics = CacheStatistics(counters: [:])
            #expect(DashboardSnapshot.CacheState(statistics, memory).servers.map(\.isFull) == [false])
            let refusing = DashboardSnapshot.CacheState(statistics, memory, hasRefused: true)
            #expect(refusing.servers.map(\.isFull) == [true])
            // The page has a notice of its own for such a server.
            #expect(DashboardReader.refusalWarnings(memory).isEmpty)
            // One that evicts refuses too, if an entry is larger than its memory or its policy finds no key.
            try await client.send(["CONFIG", "SET", "maxmemory-policy", "volatile-lru"])
            let evicting = await inspector.cacheMemory()
            #expect(DashboardReader.refusalWarnings(evicting) == [CacheStatistics.refusalWarning])
        }
    }

    @Test func aStreamHasStatesUntilTheShutdown() async throws {
        try await APIServer.run { (server) async throws in
            try await server.makeBatch("spring", outcomes: 1, isFinished: false)
            let stream = try server.start("dashboard/events")
            let both = try server.start("dashboard/events")
            for stream in [stream, both] {
                try await stream.waitForOutput { $0.components(separatedBy: "event: snapshot\n").count > 2 }
            }
            await server.shutDown()
            let ending = await stream.ending()
            #expect(ending.code == 0, "the response is complete")
            let answer = try APIServer.Answer(ending.output)
            #expect(answer.status == 200 && answer.field("Content-Type") == "text/event-stream")
            #expect(answer.body.hasPrefix("event: begin\ndata: {\"history\":[{"))
            #expect(answer.body.contains(#""batch":"spring""#) && !answer.body.contains("event: unavailable"))
            _ = await both.ending()
        }
    }

    @Test func aRedisThatIsAwayHasASentence() async throws {
        try await APIServer.run { (server) async throws in
            _ = try await server.ask("dashboard")
            let stream = try server.start("dashboard/events")
            try await stream.waitForOutput { $0.contains("event: snapshot\n") }
            await server.redis.crash()
            try await stream.waitForOutput { $0.contains("event: unavailable\ndata: {\"detail\":\"The queue's Redis") }
            let answer = try await server.ask("dashboard")
            #expect(answer.status == 503)
            #expect(try answer.detail().contains("The page goes on"))
            try await server.redis.startAgain()
            try await stream.waitForOutput { text in
                text.components(separatedBy: "event: unavailable").last?.contains("event: snapshot\n") == true
            }
        }
    }
}
