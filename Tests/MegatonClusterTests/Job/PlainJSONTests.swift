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
