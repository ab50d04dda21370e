package import Foundation
internal import MegatonPipeline

extension Job {
    /// The wire form, with sorted fields.
    package func json() -> Data { plainJSON ?? WireJSON.data(self) }

    /// The same bytes for a usual job, which Foundation's encoder needs 10 µs for; nil if the job has a field that only
    /// the general encoder writes.
    var plainJSON: Data? {
        guard credential == nil, facts == nil, requeuedFrom == nil, refused == nil, reply == nil,
            reload == nil, refresh == nil, !ignoresRememberedFailures, batchSize == nil, idempotencyTTL == nil,
            notBefore == nil
        else { return nil }
        var json = PlainJSON(capacity: 512)
        json.open("{")
        json.field("attempts", attempts)
        json.field("batch", batch)
        json.field("failOn", failOn?.rawValue)
        json.field("id", id)
        json.field("key", idempotencyKey)
        json.field("kind", kind.rawValue)
        json.field("labels", labels)
        json.field("output", output)
        json.field("preset", preset)
        json.field("priority", priority.rawValue)
        if let renditions {
            json.name("renditions")
            json.value(RenditionLists.recent.json(of: renditions))
        }
        json.field("replace", replace?.rawValue)
        json.field("source", source)
        json.field("traceparent", traceparent)
        json.close("}")
        return json.isPlain ? json.data : nil
    }
}
