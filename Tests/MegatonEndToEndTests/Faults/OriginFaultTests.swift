import Foundation
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Synchronization
import Testing

/// Origins that limit their clients, or whose responses do not match their headers.
@Suite(.serialized, .timeLimit(.minutes(2))) struct OriginFaultTests {
    // An origin that throttles: 429 with Retry-After.
    @Test func anOriginThatWantsToBeLeftAloneIs() async throws {
        let record = RequestRecord()
        let image = FaultCluster.image
        let answer: @Sendable (String) -> OriginServer.Answer = { path in
            record.note(path)
            if path.hasPrefix("/busy") { return OriginServer.Answer(status: 429, headers: [("Retry-After", "1")]) }
            return .image(image)
        }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                try await cluster.start(workers: [[]])
                // A 429 from one path only applies to that path.
                try await cluster.blockHost(of: origin, paths: ["busy", "busy-too"])
                try await cluster.push(origin.url("/other.png"), id: "other")
                try await cluster.wait(untilDone: 1)
                let refused = try #require(record.first("/busy-too.png"))
                let next = try #require(record.first("/other.png"))
                // Counted from before the origin responded, in whole milliseconds of another clock.
                #expect(next - refused >= .milliseconds(990))
            }
        }
    }

    /// Resuming after kill -9: the worker that fetches is killed after some seconds of a slow download, and the next
    /// one asks only for the rest.
    @Test func bytesFetchedByAKilledWorkerAreNotFetchedAgain() async throws {
        // A decoder ignores bytes after the end of an image.
        let body = FaultCluster.image + Data(count: 2_000_000)
        let ranges = Mutex<[String]>([])
        let answer: @Sendable (OriginServer.Request) -> OriginServer.Answer = { request in
            let range = request.headers["range"] ?? ""
            ranges.withLock { $0.append(range) }
            let fields = [("Accept-Ranges", "bytes"), ("ETag", "\"1\""), ("Content-Type", "image/png")]
            guard let start = Int(range.dropFirst("bytes=".count).dropLast()) else {
                let drip = OriginStream(piece: Data(count: 4096), interval: .milliseconds(100))
                let first = body.prefix(200_000)
                return OriginServer.Answer(headers: fields, body: first, announcedLength: body.count, stream: drip)
            }
            let part = [("Content-Range", "bytes \(start)-\(body.count - 1)/\(body.count)")]
            return OriginServer.Answer(status: 206, headers: fields + part, body: body.dropFirst(start))
        }
        try await OriginServer.run(responding: answer) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                let first = try await cluster.start(workers: [FaultCluster.hasty])[0]
                try await cluster.push(origin.url("/a.png"), id: "a")
                while try await cluster.client.send(["KEYS", "megaton:d:*}"]).array?.isEmpty != false {
                    await Task.yield()
                }
                first.send(SIGKILL)
                try cluster.worker(FaultCluster.hasty)
                try await cluster.wait(untilDone: 1)
                let sent = ranges.withLock { $0 }
                #expect(sent.count == 2 && sent[0].isEmpty, "\(sent)")
                let start = try #require(sent.last.flatMap { Int($0.dropFirst("bytes=".count).dropLast()) })
                #expect(start >= 200_000, "what had come is not asked for again")
                #expect(try await cluster.leftovers() == [])
            }
        }
    }

    // An origin that lies: bodies that do not match their headers.
    @Test func bodiesThatAreNotWhatTheyShouldBeFailAndAreNotKept() async throws {
        let image = FaultCluster.image
        let answer: @Sendable (String) -> OriginServer.Answer = { path in
            switch path {
            case "/truncated.png": OriginServer.Answer(body: image, announcedLength: image.count + 1000)
            // Only the announced bytes count, and they are not an image.
            case "/cut.png": OriginServer.Answer(body: image, announcedLength: 4)
            // Over the limit of 64 MiB: refused by its announced length, before the body arrives.
            case "/huge.png": OriginServer.Answer(body: image, announcedLength: 70_000_000)
            default: .image(image)
            }
        }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                try await cluster.start(workers: [[]])
                for name in ["truncated", "cut", "huge"] {
                    try await cluster.push(origin.url("/\(name).png"), id: name, attempts: 1)
                }
                try await cluster.wait(for: ["dead"]) { client in
                    try await client.send(["ZCARD", "megaton:{default}:2:dead"]).int == 3
                }
                #expect(try await cluster.deathCode("truncated") == "incomplete_body")
                #expect(try await cluster.deathCode("cut") == "unsupported_format")
                #expect(try await cluster.deathCode("huge") == "too_large")
                for kind in ["o", "r", "t"] {
                    let kept = try await cluster.client.send(["KEYS", "megaton:\(kind):*"]).array
                    #expect(kept?.isEmpty == true, "\(kind): \(String(describing: kept))")
                }
                try await cluster.push(origin.url("/good.png"), id: "good")
                try await cluster.wait(untilDone: 1)
                #expect(try await cluster.leftovers() == [])
            }
        }
    }
}
