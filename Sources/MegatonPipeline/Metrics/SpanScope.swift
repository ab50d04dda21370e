package import Tracing

/// Tracer and parent of the spans of one request. Work that several requests share has a span of the request that
/// started it.
///
/// Nothing is made for spans in a process without a tracer: there is no scope then.
package struct SpanScope: Sendable {
    private let tracer: any Tracer
    private let parent: ServiceContext

    fileprivate init(_ tracer: any Tracer, parent: ServiceContext) {
        self.tracer = tracer
        self.parent = parent
    }

    /// Runs the body in a span, which is the current one of the task meanwhile.
    ///
    /// - Parameter facts: makes the attributes with which the span ends.
    package func run<Value, Failure: Error>(
        _ name: SpanName,
        _ body: () async throws(Failure) -> Value,
        facts: (Result<Value, Failure>) -> SpanFacts
    ) async throws(Failure) -> Value {
        let span: any Tracing.Span = tracer.startSpan(name.rawValue, context: parent, ofKind: name.kind)
        defer { span.end() }
        let result = await ServiceContext.$current.withValue(span.context) { () async -> Result<Value, Failure> in
            do throws(Failure) { return .success(try await body()) } catch { return .failure(error) }
        }
        facts(result).set(on: span)
        return try result.get()
    }
}

/// Makes the scopes of requests.
package struct SpanSource: Sendable {
    /// The tracer; nil for the one that the process has bootstrapped when a scope is made.
    private let tracer: (any Tracer)?

    package init(tracer: (any Tracer)? = nil) { self.tracer = tracer }

    /// A scope below the current span of the task; nil without a tracer.
    package func current() -> SpanScope? {
        active.map { SpanScope($0, parent: ServiceContext.current ?? ServiceContext.topLevel) }
    }

    /// A scope that begins a trace, or continues that of a client; nil without a tracer.
    ///
    /// - Parameter traceparent: field of W3C Trace Context, which the tracer reads; not evaluated without a tracer.
    package func scope(continuing traceparent: @autoclosure () -> String?) -> SpanScope? {
        guard let active else { return nil }
        var parent = ServiceContext.topLevel
        if let traceparent = traceparent() {
            active.extract([FieldExtractor.traceparent: traceparent], into: &parent, using: FieldExtractor())
        }
        return SpanScope(active, parent: parent)
    }

    private var active: (any Tracer)? {
        // Each request asks. Most processes have no tracer, and this is faster than to search for one.
        if tracer == nil, InstrumentationSystem.instrument is NoOpInstrument { return nil }
        let found = tracer ?? InstrumentationSystem.tracer
        return found is NoOpTracer ? nil : found
    }

    /// Finds fields by names in any letter case.
    private struct FieldExtractor: Extractor {
        static let traceparent = "traceparent"

        func extract(key: String, from carrier: [String: String]) -> String? { carrier[key.lowercased()] }
    }
}

extension PipelineMetrics {
    /// Runs the body, in a span of the request if there is a tracer.
    ///
    /// - Parameter facts: makes the attributes with which the span ends; not called without a tracer.
    package func inSpan<Value, Failure: Error>(
        _ name: SpanName,
        _ body: () async throws(Failure) -> Value,
        facts: (Result<Value, Failure>) -> SpanFacts
    ) async throws(Failure) -> Value {
        guard let spans else { return try await body() }
        return try await spans.run(name, body, facts: facts)
    }
}
