import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

/// The limits of sources, as options of `megaton run` and `megaton worker` set them: each refusal names its option.
@Suite(.timeLimit(.minutes(3))) struct SourceLimitTests {
    private let home: RunTests.Home

    init() throws { home = try RunTests.Home() }

    /// Runs with one worker, and returns the code and the message of the only job's error; nil if it is done.
    private func error(
        _ data: Data,
        named name: String,
        _ options: [String]
    ) async throws -> (code: String, message: String)? {
        let path = try home.directory.write(data, to: "in/\(name)")
        let ending = try await home.run([path, "--workers", "1"] + options)
        let outcome = try #require(try home.ledger().last, "\(ending.errors)")
        #expect(ending.code == (outcome.error == nil ? 0 : 2), "\(ending.errors)")
        return outcome.error.map { ($0.code, $0.message) }
    }

    private func expectRefusal(
        _ data: Data,
        named name: String,
        _ options: [String],
        _ code: String,
        _ option: String
    ) async throws {
        let refusal = try #require(try await error(data, named: name, options), "\(options)")
        #expect(refusal.code == code && refusal.message.contains(option), "\(refusal)")
        #expect(!refusal.message.contains("RenderLimits") && !refusal.message.contains("Configuration"), "\(refusal)")
    }

    /// Fault: a run that must not connect to the origin had what another run had fetched, and other sizes of it.
    @Test func theCacheOpensNoAddress() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        let answer: @Sendable (String) -> OriginServer.Answer = { _ in
            .image(image, headers: [("Cache-Control", "max-age=86400")])
        }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            let run = [origin.url("/a.png").absoluteString, "--workers", "1", "--size", "16"]
            for options in [["--allow-private"], ["--allow-private"], [], ["--size", "8"]] {
                let ending = try await home.run(run + options)
                let error = try home.ledger().last?.error
                #expect(ending.code == (options == ["--allow-private"] ? 0 : 2), "\(options): \(ending.errors)")
                // The cache had the rendition: only the first run asked the origin.
                #expect(origin.total == 1, "\(options)")
                guard options != ["--allow-private"] else { continue }
                #expect(error?.code == "forbidden" && error?.message.contains("--allow-private") == true, "\(options)")
            }
        }
    }

    /// Fault: docs/credentials.md says that the error does so.
    @Test func aDeniedReadSaysThatItWasNotSigned() async throws {
        let denial = Data("<Error><Code>AccessDenied</Code></Error>".utf8)
        let answer: @Sendable (String) -> OriginServer.Answer = { _ in .init(status: 403, body: denial) }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            let store = "http://127.0.0.1:\(origin.port)"
            let ending = try await home.run(["s3://photos/a.jpg", "--s3-endpoint", store, "--workers", "1"])
            let error = try #require(try home.ledger().last?.error, "\(ending.errors)")
            #expect(ending.code == 2 && error.code == "access_denied", "\(error)")
            #expect(error.message.contains("access is denied: no credential was given"), "\(error.message)")
        }
    }

    /// Fault: a file that cannot be looked for was said to be missing.
    @Test func anInputThatCannotBeReadHasItsReason() async throws {
        let name = String(repeating: "a", count: 300) + ".jpg"
        let ending = try await home.run([name])
        #expect(ending.code == 64 && ending.errors.contains("cannot be read: File name too long"), "\(ending.errors)")
        let missing = try await home.run(["b.jpg"])
        #expect(missing.code == 64 && missing.errors.contains("no such file or directory"), "\(missing.errors)")
    }

    /// 200x100 pixels are 0.02 megapixels.
    @Test func pixelsAreLimited() async throws {
        let image = TestImage.quarters(width: 200, height: 100)
        let words = "200x100 pixels, 0.02 megapixels, are more than the limit of 0.019 megapixels (--max-pixels)."
        try await expectRefusal(image, named: "a.png", ["--max-pixels", "0.019"], "image_too_large", words)
        #expect(try await error(image, named: "a.png", ["--max-pixels", "0.02"]) == nil)
    }

    /// The default refuses a header of 108 megapixels. With a larger limit the missing pixels are noticed instead.
    @Test func anImageOf108MegapixelsNeedsALargerLimit() async throws {
        let header = TestImage.bomb(width: 12_000, height: 9_000)
        try await expectRefusal(header, named: "a.png", [], "image_too_large", "--max-pixels")
        let other = try await error(header, named: "a.png", ["--max-pixels", "120", "--memory", "2048"])
        #expect(other?.code == "corrupt_image", "\(String(describing: other))")
    }

    @Test func sidesAreLimited() async throws {
        let image = TestImage.quarters(width: 300, height: 20)
        try await expectRefusal(image, named: "a.png", ["--max-side", "299"], "side_too_long", "--max-side")
        #expect(try await error(image, named: "a.png", ["--max-side", "300"]) == nil)
    }

    /// Of a file, and of a response that announces its length.
    @Test func bytesAreLimited() async throws {
        let image = TestImage.quarters(width: 600, height: 600)
        #expect(image.count > 1 << 20)
        try await expectRefusal(image, named: "a.png", ["--max-source-bytes", "1"], "too_large", "--max-source-bytes")
        #expect(try await error(image, named: "a.png", ["--max-source-bytes", "2"]) == nil)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let url = origin.url("/b.png").absoluteString
            let ending = try await home.run([url, "--allow-private", "--workers", "1", "--max-source-bytes", "1"])
            #expect(ending.code == 2, "\(ending.errors)")
            let refusal = try #require(try home.ledger().last?.error)
            #expect(refusal.code == "too_large" && refusal.message.contains("--max-source-bytes"), "\(refusal)")
        }
    }

    /// A GIF of three frames: only renditions that keep the animation read them all.
    @Test func framesAreLimited() async throws {
        let kept = ["--format", "gif", "--animated", "--max-frames"]
        try await expectRefusal(Self.animation, named: "a.gif", kept + ["2"], "too_many_frames", "--max-frames")
        #expect(try await error(Self.animation, named: "a.gif", kept + ["3"]) == nil)
    }

    /// Three frames of one pixel each.
    static let animation: Data = {
        let header = Data("GIF89a".utf8) + Data([1, 0, 1, 0, 0x80, 0, 0, 0, 0, 0, 255, 255, 255])
        let control = Data([0x21, 0xF9, 4, 0, 10, 0, 0, 0])
        let pixel = Data([0x2C, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0])
        return header + (control + pixel) + (control + pixel) + (control + pixel) + Data([0x3B])
    }()

    /// Many large results of one source take longer than a second together.
    @Test func theTimeOfARenderIsLimited() async throws {
        let sizes = (3_000..<3_030).flatMap { ["--size", "\($0)x"] }
        let image = try TestImage.jpeg(width: 6_000, height: 6_000)
        let options = ["--format", "png", "--max-seconds", "1"] + sizes
        try await expectRefusal(image, named: "a.jpg", options, "render_timed_out", "--max-seconds")
    }

    /// A source that exceeds one limit of a worker.
    private struct Excess: Sendable {
        let option: String
        let code: String
        let source: Data
        /// The fields of the rendition in JSON.
        let rendition: String
    }

    /// Options of a worker. The memory suffices for the render that is stopped after a second.
    private static let limits = [
        "--max-pixels", "82", "--max-side", "9200", "--max-source-bytes", "2", "--max-frames", "2", "--max-seconds",
        "1", "--memory", "512",
    ]

    private static func excesses() throws -> [Excess] {
        let small = #"{"width":9}"#
        let many = (3_000..<3_030).map { #"{"width":\#($0),"format":"png"}"# }.joined(separator: ",")
        return [
            Excess(
                option: "--max-pixels",
                code: "image_too_large",
                source: TestImage.bomb(width: 9_100, height: 9_100),
                rendition: small
            ),
            Excess(
                option: "--max-side",
                code: "side_too_long",
                source: TestImage.bomb(width: 9_201, height: 10),
                rendition: small
            ),
            Excess(
                option: "--max-source-bytes",
                code: "too_large",
                source: TestImage.quarters(width: 800, height: 800),
                rendition: small
            ),
            Excess(
                option: "--max-frames",
                code: "too_many_frames",
                source: animation,
                rendition: #"{"width":1,"format":"gif","animated":true}"#
            ),
            Excess(
                option: "--max-seconds",
                code: "render_timed_out",
                source: try TestImage.jpeg(width: 6_000, height: 6_000),
                rendition: many
            ),
            // The whole source is in memory to find its borders.
            Excess(
                option: "--memory",
                code: "too_costly",
                source: TestImage.bomb(width: 9_000, height: 9_000),
                rendition: #"{"width":9,"trim":true}"#
            ),
        ]
    }

    /// One job for each limit, pushed at once to one worker; and one that exceeds none.
    @Test func aWorkerRefusesWhatExceedsItsLimits() async throws {
        let excesses = try Self.excesses()
        try await FaultCluster.run { (cluster) async throws in
            try await cluster.start(workers: [["--concurrency", "8"] + Self.limits])
            func job(_ id: String, _ source: Data, _ renditions: String) throws -> String {
                let path = try cluster.directory.write(source, to: "\(id).image")
                return #"{"id":"\#(id)","source":"file://\#(path)","renditions":[\#(renditions)],"#
                    + #""reply":{"list":"client:limits"}}"#
            }
            var jobs = try excesses.map { try job($0.code, $0.source, $0.rendition) }
            jobs.append(try job("within", FaultCluster.image, #"{"width":9}"#))
            for job in jobs { try await cluster.client.send(["LPUSH", "megaton:{default}:jobs", .string(job)]) }
            let lines = try await cluster.client.outcomes(jobs.count, of: "client:limits")
            let outcomes = try lines.map { try JSONDecoder().decode(JobOutcome.self, from: $0) }
            for excess in excesses {
                let error = try #require(outcomes.first { $0.id == excess.code }?.error, "\(outcomes)")
                #expect(error.code == excess.code && error.message.contains(excess.option), "\(error)")
                #expect(!error.message.contains("RenderLimits") && !error.message.contains("Configuration"))
            }
            #expect(outcomes.first { $0.id == "within" }?.status == .done, "\(outcomes)")
        }
    }

    private static let limitsOutOfTheirRange = [
        ["--max-pixels", "0"], ["--max-side", "0"], ["--max-source-bytes", "2048"], ["--max-frames", "0"],
        ["--max-seconds", "0.5"],
    ]

    @Test func limitsOutOfTheirRangeAreWrongUsage() async throws {
        try await inPairs(Self.limitsOutOfTheirRange) { option in
            let home = try RunTests.Home()
            let ending = try await home.run(["/tmp"] + option)
            #expect(ending.code == 64 && ending.errors.contains("\(option[0]) must be"), "\(ending.errors)")
        }
    }

    /// The workers of a cluster have limits of their own.
    @Test func aRunWithoutWorkersHasNoLimits() async throws {
        let ending = try await home.run(["/tmp", "--redis", "redis://127.0.0.1:1", "--max-side", "100"])
        #expect(ending.code == 64 && ending.errors.contains("--max-side has no effect"), "\(ending.errors)")
    }
}
