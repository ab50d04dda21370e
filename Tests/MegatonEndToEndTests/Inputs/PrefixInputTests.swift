import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCommandLine

/// Buckets as inputs: `s3://bucket/prefix/`.
@Suite(.timeLimit(.minutes(3))) struct PrefixInputTests {
    /// A store with one bucket, whose listing has two keys on each page.
    @Sendable private static func answer(_ path: String, _ keys: [String]) -> OriginServer.Answer {
        let parts = URLComponents(string: path)
        guard parts?.path == "/photos", let query = parts?.queryItems else {
            let isImage = parts?.path.hasPrefix("/photos/") == true
            return isImage
                ? .image(TestImage.quarters(width: 32, height: 32, seed: UInt8(path.utf8.count)))
                : .init(status: 404, body: Data("<Error><Code>NoSuchBucket</Code></Error>".utf8))
        }
        let prefix = query.first { $0.name == "prefix" }?.value ?? ""
        let found = keys.filter { $0.hasPrefix(prefix) }
        let start = query.first { $0.name == "continuation-token" }?.value.flatMap { Int($0) } ?? 0
        let page = found.dropFirst(start).prefix(2)
        let end = start + page.count
        let next = end < found.count ? "<NextContinuationToken>\(end)</NextContinuationToken>" : ""
        let contents = page.map { "<Contents><Key>\($0.replacing(" ", with: "+"))</Key></Contents>" }.joined()
        let body = "<ListBucketResult><EncodingType>url</EncodingType>\(contents)\(next)</ListBucketResult>"
        return .init(body: Data(body.utf8))
    }

    private static let keys = [
        "in/", "in/a b.png", "in/sub/c.jpg", "in/sub/notes.txt", "in/old/d.png", "in/.hidden.png", "in/%2E%2E/e.png",
        "other/f.png",
    ]

    @Test func aPrefixIsListedAndItsImagesAreFetched() async throws {
        let home = try RunTests.Home()
        try await OriginServer.run(answer: { Self.answer($0, Self.keys) }) { (origin) async throws in
            let arguments = ["s3://photos/in/", "--s3-endpoint", origin.url("").absoluteString, "--exclude", "old/*"]
            let ending = try await home.run(arguments + ["-j1"])
            #expect(ending.code == 2, "\(ending.errors)")
            #expect(ending.errors.contains("1 file in the directories was left out"), "\(ending.errors)")
            #expect(ending.errors.contains("1 input left out by --exclude"), "\(ending.errors)")
            #expect(ending.errors.contains("s3://photos/in/, key 7 is refused:"), "\(ending.errors)")
            let outcomes = try home.ledger()
            let done = outcomes.filter { $0.status == .done }.map(\.source).sorted()
            #expect(done == ["s3://photos/in/a%20b.png", "s3://photos/in/sub/c.jpg"])
            #expect(outcomes.compactMap { $0.error?.code } == ["invalid_job"])
            #expect(home.outputs == ["a b-256x256.jpg", "sub/c-256x256.jpg"])
            let dry = try await home.run(arguments + ["--dry-run"])
            #expect(dry.errors.contains("2 outputs of 2 jobs would be made"), "\(dry.errors)")
        }
    }

    @Test func objectsOfTheOutputAreNoInputs() async throws {
        let home = try RunTests.Home()
        try await OriginServer.run(answer: { Self.answer($0, Self.keys) }) { (origin) async throws in
            let run = ["run", "s3://photos/in/", "--s3-endpoint", origin.url("").absoluteString, "--dry-run", "-o"]
            let inside = await (try home.megaton(run + ["s3://photos/in/sub/"])).ending()
            #expect(!inside.output.contains("c.jpg ->"), "\(inside.output)")
            #expect(
                inside.output.contains("s3://photos/in/a%20b.png -> s3://photos/in/sub/a%20b-256x256.jpg"),
                "\(inside.output)"
            )
            let same = await (try home.megaton(run + ["s3://photos/in/"])).ending()
            #expect(same.code == 64 && same.errors.contains("is also an input"), "\(same.errors)")
        }
    }

    @Test func aSubmissionListsTheBucketToo() async throws {
        let home = try RunTests.Home()
        try await OriginServer.run(answer: { Self.answer($0, Self.keys) }) { (origin) async throws in
            try await RedisServerProcess.run { server in
                let submit = ["submit", "s3://photos/other/", "--batch", "b", "--redis", server.url]
                let endpoint = ["--s3-endpoint", origin.url("").absoluteString]
                #expect(await (try home.megaton(submit + endpoint)).ending().code == 0)
                let client = server.client()
                defer { client.close() }
                let queued = try await client.send(["LRANGE", "megaton:{default}:2:jobs:b", "0", "-1"]).array ?? []
                #expect(queued.count == 1 && queued[0].string?.contains("s3://photos/other/f.png") == true)
                let closed = await (try home.megaton(submit)).ending()
                #expect(closed.code == 64 && closed.errors.contains("(--s3-endpoint URL)"), "\(closed.errors)")
            }
        }
        let unused = await (try home.megaton(["submit", "https://h.example/a.png", "--s3-region", "x"])).ending()
        #expect(unused.code == 64 && unused.errors.contains("--s3-region has no effect"), "\(unused.errors)")
    }

    @Test func aBucketThatCannotBeListedEndsTheRun() async throws {
        let home = try RunTests.Home()
        try await OriginServer.run(answer: { Self.answer($0, Self.keys) }) { (origin) async throws in
            let endpoint = ["--s3-endpoint", origin.url("").absoluteString, "-j1"]
            for extra in [[], ["--dry-run"]] {
                let ending = try await home.run(["s3://nothing/"] + endpoint + extra)
                #expect(ending.code == 64, "\(ending.errors)")
                #expect(ending.errors.contains("s3://nothing/ cannot be listed: there is no bucket nothing."))
            }
            let invalid = try await home.run(["s3://Photos/"] + endpoint)
            #expect(invalid.code == 64 && invalid.errors.contains("is not the name of a bucket"), "\(invalid.errors)")
        }
    }

    @Test func onePageIsInMemory() throws {
        var reader = try InputReader(InputSelection(arguments: ["s3://photos/in/"]))
        for page in 0..<3 {
            #expect(try reader.next(10).isEmpty && !reader.isAtEnd)
            guard case .keys(let prefix, let token)? = reader.request else {
                Issue.record("no page is needed")
                return
            }
            #expect(prefix.description == "s3://photos/in/" && token == (page == 0 ? nil : "\(page)"))
            let keys = (0..<25).map { "in/\(page)/\($0).png" }
            try reader.receive(.keys(.init(keys: keys, next: page < 2 ? "\(page + 1)" : nil)))
            #expect(try reader.next(10).count == 10 && reader.request == nil)
            #expect(try reader.next(100).count == 15)
        }
        #expect(try reader.next(10).isEmpty && reader.isAtEnd && reader.request == nil)
    }
}
