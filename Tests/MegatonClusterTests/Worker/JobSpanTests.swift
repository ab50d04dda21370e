import Foundation
import InMemoryTracing
import MegatonPipeline
import MegatonTestSupport
import Testing
import Tracing

@testable import MegatonCluster

/// Spans of jobs, in a whole worker with an origin.
@Suite(.timeLimit(.minutes(2))) struct JobSpanTests {
    private static let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    private static let traceparent = "00-\(trace)-\(parent)-01"
    private static let image = TestImage.quarters(width: 64, height: 64)

    /// Runs a worker until its tracer has the spans of some attempts. The path `/missing.png` is 404.
    ///
    /// - Parameters:
    ///   - count: number of attempts, counting sources of packs.
    ///   - json: makes the pushed JSON from the origin's URL and a directory for outputs.
    private func spans(
        ofAttempts count: Int = 1,
        _ json: @escaping @Sendable (_ origin: String, _ directory: String) -> String
    ) async throws -> TraceContextTracer {
        let tracer = TraceContextTracer()
        let directory = try TestDirectory()
        try await TestWorker.run {
            ($0.roots, $0.tracer) = ([directory.path], tracer)
        } answer: {
            $0.hasPrefix("/missing") ? .init(status: 404) : .image(Self.image)
        } _: { (queue, origin) async throws in
            try await queue.pushPublicly(json(origin.url("").absoluteString, directory.path))
            while tracer.spans("megaton.job").count < count, !Task.isCancelled { await Task.yield() }
        }
        return tracer
    }

    private static func attribute(_ name: String, of span: FinishedInMemorySpan) -> SpanAttribute? {
        span.attributes.get("megaton.\(name)")
    }

    @Test func theStagesOfAJobAreItsChildrenInTheTraceOfTheClient() async throws {
        let tracer = try await spans { origin, directory in
            #"{"id":"a","batch":"b","source":"\#(origin)/a.png?token=secret","renditions":[{"name":"s","width":8}],"#
                + #""output":"file://\#(directory)/{stem}.{ext}","traceparent":"\#(Self.traceparent)"}"#
        }
        let job = try #require(tracer.spans("megaton.job").first)
        #expect(job.traceID == Self.trace && job.parentSpanID == Self.parent)
        #expect(Self.attribute("id", of: job) == .string("a") && Self.attribute("batch", of: job) == .string("b"))
        #expect(Self.attribute("host", of: job) == .string("127.0.0.1"))
        #expect(Self.attribute("attempt", of: job) == .int64(1))
        #expect(Self.attribute("result", of: job) == .string("done") && job.status == nil)
        let stages = ["megaton.fetch", "megaton.render", "megaton.store"].flatMap(tracer.spans)
        #expect(stages.map(\.operationName) == ["megaton.fetch", "megaton.render", "megaton.store"])
        for stage in stages { #expect(stage.traceID == Self.trace && stage.parentSpanID == job.spanID) }
        #expect(Self.attribute("host", of: stages[0]) == .string("127.0.0.1"))
        #expect(Self.attribute("bytes", of: stages[0]) == .int64(Int64(Self.image.count)))
        let written = try #require(Self.attribute("bytes", of: stages[1]))
        for span in [stages[2], job] { #expect(Self.attribute("bytes", of: span) == written) }
        for stage in stages.dropFirst() { #expect(Self.attribute("format", of: stage) == .stringArray(["jpeg"])) }
        for span in tracer.memory.finishedSpans {
            let text = "\(span.attributes) \(span.errors) \(span.events)"
            #expect(!text.contains("secret") && !text.contains("a.png"), "\(text)")
        }
    }

    @Test func aFailedJobHasTheCodeAndNoMessage() async throws {
        let tracer = try await spans { origin, _ in #"{"id":"a","source":"\#(origin)/missing.png?token=secret"}"# }
        let job = try #require(tracer.spans("megaton.job").first)
        let fetch = try #require(tracer.spans("megaton.fetch").first)
        for span in [job, fetch] {
            #expect(Self.attribute("code", of: span) == .string("not_found"))
            #expect(span.status == SpanStatus(code: .error) && span.errors.isEmpty)
        }
        #expect(job.parentSpanID == nil && Self.attribute("result", of: job) == .string("failed"))
        #expect(tracer.spans("megaton.render").isEmpty && tracer.spans("megaton.store").isEmpty)
    }

    @Test func eachSourceOfAPackHasASpan() async throws {
        let tracer = try await spans(ofAttempts: 2) { origin, _ in
            #"{"id":"p","sources":["\#(origin)/1.png","\#(origin)/2.png"],"traceparent":"\#(Self.traceparent)"}"#
        }
        let jobs = tracer.spans("megaton.job")
        #expect(jobs.allSatisfy { $0.traceID == Self.trace && $0.parentSpanID == Self.parent })
        #expect(Set(jobs.compactMap { Self.attribute("id", of: $0).map { "\($0)" } }).count == 2)
        let fetches = tracer.spans("megaton.fetch")
        #expect(Set(fetches.map(\.parentSpanID)) == Set(jobs.map(\.spanID)))
    }

    @Test func withoutATracerThereAreNoSpans() async {
        #expect(SpanSource().current() == nil && SpanSource().scope(continuing: Self.traceparent) == nil)
        let value = await PipelineMetrics().inSpan(.render) { () async -> Int in
            7
        } facts: { (_: Result<Int, Never>) in
            Issue.record("attributes were made")
            return SpanFacts()
        }
        #expect(value == 7)
    }

    /// A program that makes renditions without jobs.
    @Test func renditionsHaveSpansBelowThatOfTheirCaller() async throws {
        let tracer = InMemoryTracer()
        let directory = try TestDirectory()
        let file = try directory.write(Self.image, to: "a.png")
        try await withTracer(tracer) { () async throws in
            try await tracer.withSpan("request") { (_) async throws in
                var configuration = ImagePipeline.Configuration()
                configuration.fileAccess = FileAccess(roots: [directory.path])
                let pipeline = ImagePipeline(configuration: configuration)
                let request = ImageRequest(url: URL(filePath: file))
                _ = try await pipeline.renditions([Rendition(width: 8)], for: request)
            }
        }
        let spans = tracer.finishedSpans
        let caller = try #require(spans.first { $0.operationName == "request" })
        let others = spans.filter { $0.operationName != "request" }
        #expect(others.map(\.operationName) == ["megaton.fetch", "megaton.render"])
        #expect(others.allSatisfy { $0.parentSpanID == caller.spanID })
    }
}
