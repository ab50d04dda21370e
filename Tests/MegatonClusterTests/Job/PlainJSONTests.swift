import Foundation
import MegatonPipeline
import Testing

@testable import MegatonCluster

/// The hand-written encoder writes the same as `JSONEncoder`.
struct PlainJSONTests {
    private func outcome(_ source: String) -> JobOutcome {
        var outcome = JobOutcome(
            id: "b.1",
            source: source,
            status: .done,
            attempts: 2,
            seconds: 0.0125,
            worker: "h:1:a"
        )
        let path = "/out/größe/a \"b\" \\ c.jpg"
        for (name, path) in [("small", path), ("large", nil)] {
            outcome.outputs.append(
                JobOutcome.Output(
                    name: name,
                    path: path,
                    width: 256,
                    height: 171,
                    format: .webp,
                    bytes: 12_345,
                    sha256: String(repeating: "0a", count: 32),
                    from: .render,
                    options: path.map { _ in "0123456789abcdef" }
                )
            )
        }
        return outcome
    }

    @Test(arguments: ["https://example.org/a/b.jpg?c=d", "file:///ä/\"quoted\"\\", "😀"])
    func anOutcome(_ source: String) {
        for seconds in [0, 1, 0.1, 1e-7, 12345.678, 1e17] {
            var outcome = outcome(source)
            outcome.seconds = seconds
            #expect(outcome.plainJSON == WireJSON.data(outcome))
            outcome.outputs = []
            outcome.worker = nil
            #expect(outcome.plainJSON == WireJSON.data(outcome))
        }
    }

    @Test(arguments: ["https://example.org/a/b.jpg?c=d", "file:///ä/\"quoted\"\\", "😀"])
    func aJob(_ source: String) {
        var job = Job(source: source)
        #expect(job.plainJSON == WireJSON.data(job))
        job.id = "b.1"
        job.batch = "b"
        (job.kind, job.priority, job.attempts) = (.fetch, .bulk, 3)
        (job.preset, job.failOn, job.replace) = ("small", .error, .images)
        (job.output, job.idempotencyKey) = ("file:///größe/{stem}-{name}.{ext}", "a/b \"c\"")
        job.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        #expect(job.plainJSON == WireJSON.data(job))
        for width in [100, 200, 100] {
            job.renditions = [Rendition(width: width), Rendition(name: "b", height: 7, format: .webp)]
            #expect(job.plainJSON == WireJSON.data(job))
        }
        // Equal texts in two encodings stay apart: they may name two files.
        for text in ["\u{e9}.png", "e\u{301}.png"] {
            job.renditions?[0].watermark = Rendition.Watermark(.image(text))
            #expect(job.plainJSON == WireJSON.data(job))
        }
        for text in ["\u{e9}", "e\u{301}"] {
            job.output = "file:///\(text).jpg"
            #expect(job.plainJSON == WireJSON.data(job))
        }
    }

    /// All fields, so that a new one is not forgotten.
    @Test(arguments: Job.CodingKeys.allCases)
    func eachFieldOfAJobIsWrittenOrLeftToTheEncoder(_ field: Job.CodingKeys) throws {
        var job = Job(source: "a")
        let others = job.json()
        switch field {
        case .source: job.source = "b"
        case .credential: job.credential = "c"
        case .id: job.id = "i"
        case .kind: job.kind = .fetch
        case .renditions: job.renditions = [Rendition(width: 3)]
        case .preset: job.preset = "p"
        case .output: job.output = "file:///o"
        case .batch: job.batch = "b"
        case .priority: job.priority = .high
        case .attempts: job.attempts = 2
        case .ignoreRememberedFailures: job.ignoresRememberedFailures = true
        case .labels: job.labels = ["a": .text("b")]
        case .requeuedFrom: job.requeuedFrom = "b"
        case .failOn: job.failOn = .error
        case .replace: job.replace = .all
        case .reload: job.reload = false
        case .refresh: job.refresh = false
        case .refused: job.refused = "r"
        case .facts: job.facts = []
        case .idempotencyKey: job.idempotencyKey = "k"
        case .idempotencyTTL: job.idempotencyTTL = 5
        case .notBefore: job.notBefore = 5
        case .reply: job.reply = JobReply(list: "l")
        case .batchSize: job.batchSize = 2
        case .traceparent: job.traceparent = "t"
        }
        #expect(job.json() == WireJSON.data(job) && job.json() != others)
        job.source = "a\u{1}"
        #expect(job.plainJSON == nil && job.json() == WireJSON.data(job))
    }

    @Test func renditionsThatAreEqualWithOtherBytesStayApart() {
        for x in [0.0, -0.0] {
            let rendition = Rendition(name: "r", width: 3, focus: Rendition.FocalPoint(x: x, y: 0.5))
            var job = Job(source: "a")
            job.renditions = [rendition]
            #expect(job.json() == WireJSON.data(job))
        }
    }

    @Test func valuesThatAreNotPlainAreLeftToTheEncoder() {
        #expect(outcome("a\nb").plainJSON == nil)
        #expect(outcome("a\nb").json() == WireJSON.data(outcome("a\nb")))
        var failed = outcome("a")
        failed.error = .init(code: "x", message: "y\n", retryable: false)
        #expect(failed.plainJSON == nil && failed.json() == WireJSON.data(failed))
    }

    @Test func labelsAreWrittenInTheOrderOfTheEncoder() {
        let labels: Job.Labels = [
            "ä": .text("\"größe\" \\ /"), "Z": .integer(-7), "a10": .number(0.5), "a2": .number(-0.0),
            "a": .number(1e21), "e\u{301}z": .bool(true), "\u{e9}": .bool(false), "": .number(3),
            "😀": .integer(.max), "\u{ff5e}": .text(""),
        ]
        var job = Job(source: "a")
        job.labels = labels
        #expect(job.plainJSON == WireJSON.data(job) && Job.json(of: labels) == WireJSON.data(labels))
        var outcome = outcome("a")
        outcome.labels = labels
        #expect(outcome.plainJSON == WireJSON.data(outcome))
        let odd: Job.Labels = ["a": .text("line\nend")]
        #expect(Job.json(of: odd) == WireJSON.data(odd))
    }

    @Test func aHeaderComesBackAsItWas() throws {
        var metadata = CachedData.Metadata(
            type: "image/jpeg",
            etag: "W/\"1\\2\"",
            lastModified: "Sun, 22 Nov 2026 09:00:00 GMT",
            width: 3,
            height: 4,
            stored: 1_795_338_000.123,
            lifetime: 60,
            staleWhileRevalidate: 0.5,
            staleIfError: 1e9
        )
        (metadata.status, metadata.age) = (200, 0.25)
        metadata.vary = ["accept": "", "x-ä": "0a"]
        metadata.headers = ["cache-control": "max-age=60", "content-disposition": "inline; filename=\"a/b\""]
        for metadata in [metadata, CachedData.Metadata(lifetime: 0)] {
            let header = CacheEntry.Header(length: 5, checksum: "ab", metadata: metadata)
            let read = try JSONDecoder().decode(CacheEntry.Header.self, from: try #require(header.plainJSON))
            #expect(read.length == 5 && read.checksum == "ab" && read.metadata == metadata)
        }
        metadata.etag = "\u{1}"
        #expect(CacheEntry.Header(length: 5, checksum: "ab", metadata: metadata).plainJSON == nil)
    }
}
