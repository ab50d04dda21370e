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

    @Test func fieldsOfAJobThatAreNotPlainAreLeftToTheEncoder() {
        let changes: [(inout Job) -> Void] = [
            { $0.credential = "c" }, { $0.labels = ["a": .text("b")] }, { $0.facts = [] }, { $0.reload = false },
            { $0.refresh = true }, { $0.ignoresRememberedFailures = true }, { $0.batchSize = 2 },
            { $0.idempotencyTTL = 5 }, { $0.notBefore = 5 }, { $0.requeuedFrom = "b" }, { $0.refused = "r" },
            { $0.source = "a\u{1}" },
        ]
        for change in changes {
            var job = Job(source: "a")
            change(&job)
            #expect(job.plainJSON == nil && job.json() == WireJSON.data(job))
        }
    }

    @Test func valuesThatAreNotPlainAreLeftToTheEncoder() {
        #expect(outcome("a\nb").plainJSON == nil)
        #expect(outcome("a\nb").json() == WireJSON.data(outcome("a\nb")))
        var failed = outcome("a")
        failed.error = .init(code: "x", message: "y", retryable: false)
        #expect(failed.plainJSON == nil && failed.json() == WireJSON.data(failed))
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
