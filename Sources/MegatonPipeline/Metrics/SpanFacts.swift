package import Foundation
internal import Tracing

/// The spans of Megaton.
package enum SpanName: String, Sendable {
    /// An attempt at a job.
    case job = "megaton.job"
    /// A request to an origin, or the read of a file.
    case fetch = "megaton.fetch"
    /// The renditions that are made from one original, with the wait for a thread and for memory.
    case render = "megaton.render"
    /// The write of a job's outputs.
    case store = "megaton.store"

    var kind: SpanKind {
        switch self {
        case .job: .consumer
        case .fetch: .client
        case .render, .store: .internal
        }
    }
}

/// Attributes with which a span ends. None of them is secret: no URL, no path and no message of an error. Ids and names
/// of batches are as the client has chosen them.
package struct SpanFacts: Sendable {
    package var id: String?
    package var batch: String?
    /// Host of the source without port, or its bucket.
    package var host: String?
    /// Number of the attempt, from 1.
    package var attempt: Int?
    /// How the attempt at a job has ended.
    package var result: String?
    /// Formats of renditions.
    package var formats: [String] = []
    package var bytes: Int?
    /// Code of an error.
    package var code: String?
    /// Whether the span has the status of an error.
    package var isError = false

    package init() {}

    /// Facts about work that throws.
    ///
    /// - Parameter describe: adds those about its value.
    package init<Value>(_ result: Result<Value, ImageError>, describe: (inout SpanFacts, Value) -> Void) {
        switch result {
        case .success(let value): describe(&self, value)
        case .failure(let error): fail(error.code.rawValue)
        }
    }

    /// The host of a URL in lower case, without what else the URL has.
    package static func host(of url: URL) -> String? { url.host() == nil ? nil : HostName.canonical(of: url) }

    package mutating func fail(_ code: String) {
        self.code = code
        isError = true
    }

    func set(on span: any Tracing.Span) {
        span.updateAttributes { attributes in
            let texts = [
                ("megaton.id", id), ("megaton.batch", batch), ("megaton.host", host), ("megaton.result", result),
                ("megaton.code", code),
            ]
            for (name, text) in texts { attributes.set(name, value: text.map { SpanAttribute.string($0) }) }
            for (name, number) in [("megaton.attempt", attempt), ("megaton.bytes", bytes)] {
                attributes.set(name, value: number.map { SpanAttribute.int64(Int64($0)) })
            }
            if !formats.isEmpty { attributes.set("megaton.format", value: .stringArray(formats)) }
        }
        if isError { span.setStatus(SpanStatus(code: .error)) }
    }
}
