import InMemoryTracing
import Tracing

/// Keeps spans in memory, and reads their parents from `traceparent` of W3C Trace Context as exporters do.
struct TraceContextTracer: Tracer {
    let memory = InMemoryTracer()

    /// The spans of a name that have ended.
    func spans(_ name: String) -> [FinishedInMemorySpan] { memory.finishedSpans.filter { $0.operationName == name } }

    func startSpan<Instant: TracerInstant>(
        _ operationName: String,
        context: @autoclosure () -> ServiceContext,
        ofKind kind: SpanKind,
        at instant: @autoclosure () -> Instant,
        function: String,
        file fileID: String,
        line: UInt
    ) -> InMemorySpan {
        memory.startSpan(
            operationName,
            context: context(),
            ofKind: kind,
            at: instant(),
            function: function,
            file: fileID,
            line: line
        )
    }

    func forceFlush() {}

    func inject<Carrier, Inject: Injector>(
        _ context: ServiceContext,
        into carrier: inout Carrier,
        using injector: Inject
    ) where Inject.Carrier == Carrier {
        memory.inject(context, into: &carrier, using: injector)
    }

    func extract<Carrier, Extract: Extractor>(
        _ carrier: Carrier,
        into context: inout ServiceContext,
        using extractor: Extract
    ) where Extract.Carrier == Carrier {
        let parts = extractor.extract(key: "Traceparent", from: carrier)?.split(separator: "-") ?? []
        guard parts.count == 4 else { return }
        context.inMemorySpanContext = InMemorySpanContext(
            traceID: String(parts[1]),
            spanID: String(parts[2]),
            parentSpanID: nil
        )
    }
}
