package import Foundation
internal import MegatonCore
internal import MegatonPipeline

/// The JSON of an outcome, written and read by hand: a client reads one for each job, and Foundation's decoder takes
/// 60 µs for it.
extension JobOutcome {
    /// One line of JSON, without its line end.
    package func json() -> Data { plainJSON ?? WireJSON.data(self) }

    /// Reads a line.
    ///
    /// - Throws: `DecodingError` if it is not the line of an outcome.
    package init(json: Data) throws {
        self = try Self(plainJSON: json) ?? JSONDecoder().decode(Self.self, from: json)
    }

    /// The same line for a usual outcome, encoded faster; nil if the outcome needs the general encoder.
    var plainJSON: Data? {
        var json = PlainJSON(capacity: 512)
        json.open("{")
        json.field("attempts", attempts)
        json.field("endedAt", endedAt)
        if let error {
            json.name("error")
            json.open("{")
            json.field("code", error.code)
            json.field("message", error.message)
            json.field("retryable", error.retryable)
            json.close("}")
        }
        if let facts { json.field(facts) }
        json.field("id", id)
        if let job {
            json.name("job")
            json.value(job.json())
        }
        json.field("labels", labels)
        json.field("notes", notes)
        json.name("outputs")
        json.open("[")
        for output in outputs {
            json.next()
            output.write(to: &json)
        }
        json.close("]")
        json.field("seconds", seconds)
        json.field("source", source)
        json.field("status", status.rawValue)
        if let times {
            json.name("times")
            json.open("{")
            json.field("fetching", times.fetching)
            json.field("rendering", times.rendering)
            json.field("storing", times.storing)
            json.field("waiting", times.waiting)
            json.close("}")
        }
        json.field("worker", worker)
        json.close("}")
        return json.isPlain ? json.data : nil
    }

    /// Reads a line whose texts are plain, with a job as most are.
    ///
    /// - Returns: nil for any other: the decoder reads it, or names the problem.
    package init?(plainJSON json: Data) {
        guard let outcome = PlainJSONReader.read(json, { Self.read(&$0) }) else { return nil }
        self = outcome
    }

    /// The fields that each has.
    private static let required: Set = ["source", "status", "outputs", "attempts", "seconds"]

    private static func read(_ reader: inout PlainJSONReader) -> JobOutcome? {
        var outcome = JobOutcome(source: "", status: .failed)
        let isRead = reader.object(with: Self.required) { reader, name in
            switch name {
            case "id": return keep(reader.string(), in: &outcome.id)
            case "source": return keep(reader.string(), in: &outcome.source)
            case "status": return keep(reader.string().flatMap(Status.init), in: &outcome.status)
            case "outputs":
                return reader.list { reader in
                    guard let output = Output.read(&reader) else { return false }
                    outcome.outputs.append(output)
                    return true
                }
            case "error": return keep(Failure.read(&reader), in: &outcome.error)
            case "attempts": return keep(reader.int(), in: &outcome.attempts)
            case "seconds": return keep(reader.double(), in: &outcome.seconds)
            case "endedAt": return keep(reader.double(), in: &outcome.endedAt)
            case "times": return keep(Times.read(&reader), in: &outcome.times)
            case "notes": return keep(reader.strings(), in: &outcome.notes)
            case "facts": return keep(reader.facts(), in: &outcome.facts)
            case "worker": return keep(reader.string(), in: &outcome.worker)
            case "labels": return keep(Job.Labels.read(&reader), in: &outcome.labels)
            case "job":
                guard let job = Job.read(&reader), job.problem == nil else { return false }
                outcome.job = job
                return true
            default: return false
            }
        }
        return isRead ? outcome : nil
    }
}

extension JobOutcome.Output {
    fileprivate func write(to json: inout PlainJSON) {
        json.open("{")
        json.field("bytes", bytes)
        json.field("cacheKey", cacheKey)
        json.field("format", format.rawValue)
        json.field("from", from.rawValue)
        json.field("height", height)
        json.field("name", name)
        json.field("options", options)
        json.field("path", path)
        json.field("score", score)
        json.field("sha256", sha256)
        json.field("width", width)
        json.close("}")
    }

    /// The fields that each has.
    private static let required: Set = ["name", "width", "height", "format", "bytes", "sha256", "from"]

    fileprivate static func read(_ reader: inout PlainJSONReader) -> Self? {
        var output = Self(name: "", width: 0, height: 0, format: .jpeg, bytes: 0, sha256: "", from: .render)
        let isRead = reader.object(with: Self.required) { reader, name in
            switch name {
            case "name": return keep(reader.string(), in: &output.name)
            case "path": return keep(reader.string(), in: &output.path)
            case "width": return keep(reader.int(), in: &output.width)
            case "height": return keep(reader.int(), in: &output.height)
            case "format": return keep(reader.string().flatMap(Rendition.Format.init), in: &output.format)
            case "bytes": return keep(reader.int(), in: &output.bytes)
            case "sha256": return keep(reader.string(), in: &output.sha256)
            case "from": return keep(reader.string().flatMap(RenditionResponse.Source.init), in: &output.from)
            case "score": return keep(reader.double(), in: &output.score)
            case "cacheKey": return keep(reader.string(), in: &output.cacheKey)
            case "options": return keep(reader.string(), in: &output.options)
            default: return false
            }
        }
        return isRead ? output : nil
    }
}

extension JobOutcome.Failure {
    fileprivate static func read(_ reader: inout PlainJSONReader) -> Self? {
        var (code, message, isRetryable): (String?, String?, Bool?)
        let isRead = reader.object { reader, name in
            switch name {
            case "code": return keep(reader.string(), in: &code)
            case "message": return keep(reader.string(), in: &message)
            case "retryable": return keep(reader.bool(), in: &isRetryable)
            default: return false
            }
        }
        guard isRead, let code, let message, let isRetryable else { return nil }
        return Self(code: code, message: message, retryable: isRetryable)
    }
}

extension JobOutcome.Times {
    /// The fields that each has.
    private static let required: Set = ["fetching", "rendering", "storing", "waiting"]

    fileprivate static func read(_ reader: inout PlainJSONReader) -> Self? {
        var times = Self(seconds: 0, StageTimes())
        let isRead = reader.object(with: Self.required) { reader, name in
            switch name {
            case "fetching": return keep(reader.double(), in: &times.fetching)
            case "rendering": return keep(reader.double(), in: &times.rendering)
            case "storing": return keep(reader.double(), in: &times.storing)
            case "waiting": return keep(reader.double(), in: &times.waiting)
            default: return false
            }
        }
        return isRead ? times : nil
    }
}
