import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

/// Origins that want to be left alone, or whose answers are not what they say.
@Suite(.serialized, .timeLimit(.minutes(2))) struct OriginFaultTests {
    // Scenario 24 of the test plan: 429 with Retry-After.
    @Test func anOriginThatWantsToBeLeftAloneIs() async throws {
        let record = RequestRecord()
        let image = FaultCluster.image
        let answer: @Sendable (String) -> OriginServer.Answer = { path in
            record.note(path)
            if path == "/busy.png" { return OriginServer.Answer(status: 429, headers: [("Retry-After", "1")]) }
            return .image(image)
        }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            try await FaultCluster.run { (cluster) async throws in
                try await cluster.start(workers: [[]])
                try await cluster.push(origin.url("/busy.png"), id: "busy", attempts: 1)
                // Its end comes behind what the host's state was told.
                try await cluster.wait(for: ["dead", "delay"]) { client in
                    let dead = try await client.send(["ZCARD", "megaton:{default}:dead"]).int ?? 0
                    let delayed = try await client.send(["ZCARD", "megaton:{default}:delay"]).int ?? 0
                    return dead + delayed > 0
                }
                try await cluster.push(origin.url("/other.png"), id: "other")
                try await cluster.wait(untilDone: 1)
                let refused = try #require(record.first("/busy.png"))
                let next = try #require(record.first("/other.png"))
                // Counted from before the origin answered, in whole milliseconds of another clock.
                #expect(next - refused >= .milliseconds(990))
            }
        }
    }

    // Scenario 24 of the test plan: bodies.
    @Test func bodiesThatAreNotWhatTheyShouldBeFailAndAreNotKept() async throws {
        let image = FaultCluster.image
        let answer: @Sendable (String) -> OriginServer.Answer = { path in
            switch path {
            case "/truncated.png": OriginServer.Answer(body: image, announcedLength: image.count + 1000)
            // The announced part is all that counts, and no picture.
            case "/cut.png": OriginServer.Answer(body: image, announcedLength: 4)
            // Beyond the limit of 64 MiB: refused by its announcement, before it comes.
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
                    try await client.send(["ZCARD", "megaton:{default}:dead"]).int == 3
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
