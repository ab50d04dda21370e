internal import Crypto
package import Foundation
internal import MegatonPipeline

/// Digests by which the queue compares jobs.
extension Job {
    /// Short digest that identifies an image whose decoding has killed processes, as a source may be long: 16
    /// characters of Base64.
    ///
    /// It includes the credential, as an origin may have different images for different callers. Collisions cannot be
    /// constructed: an untrusted list must not be able to quarantine the images of others. A job that only fetches has
    /// another digest: its success says nothing about the decoder, and must not clear the deaths that other jobs have
    /// counted.
    var sourceDigest: String {
        var hash = SHA256()
        hash.update(data: Data(source.utf8))
        if let credential {
            hash.update(data: Data([0]))
            hash.update(data: Data(credential.utf8))
        }
        if kind == .fetch { hash.update(data: Data([0, 0])) }
        return Data(hash.finalize().prefix(Self.digestBytes)).base64EncodedString()
    }

    /// 12 bytes become 16 characters without padding.
    private static let digestBytes = 12

    /// Digest of the work and the labels, which distinguishes jobs with the same id: 32 hex digits. It is not computed
    /// from the JSON, which takes as long to write as the validation of a job.
    package var contentDigest: String {
        let fields = contentFields
        var hash = SHA256()
        // Each field with its length, so that no field can pass for two.
        for field in fields { hash.update(data: Data("\(field.utf8.count):\(field)".utf8)) }
        return String(hash.finalize().hexDigits.prefix(32))
    }

    /// The fields of ``contentDigest``.
    package var contentFields: [String] {
        var fields = [kind.rawValue, source, output ?? "", credential ?? ""]
        if let labels { fields.append(Self.text(of: labels)) }
        if let failOn { fields.append("failOn=\(failOn.rawValue)") }
        if let replace { fields.append("replace=\(replace.rawValue)") }
        if reload == true { fields.append("reload") }
        if let facts { fields.append("facts=\(facts.map(\.rawValue).joined(separator: ","))") }
        if refresh == true { fields.append("refresh") }
        // A coordinator has put its renditions in the place of the preset.
        if let preset { fields.append("preset=\(preset)") }
        for rendition in renditions ?? [] { fields += [rendition.name] + rendition.identity }
        return fields
    }

    /// Digest of the work without priority, and without id and labels unless they are in the output, which finds equal
    /// jobs of a batch: 16 bytes.
    package var workDigest: Data {
        var job = self
        let template = output.flatMap { try? OutputTemplate($0) }
        if template?.usesID != true { job.id = nil }
        if template?.usesLabels != true { job.labels = nil }
        job.batch = nil
        job.priority = .normal
        job.attempts = 1
        job.requeuedFrom = nil
        job.ignoresRememberedFailures = false
        (job.reply, job.batchSize) = (nil, nil)
        (job.idempotencyKey, job.idempotencyTTL, job.notBefore) = (nil, nil, nil)
        job.traceparent = nil
        return Data(SHA256.hash(data: job.json()).prefix(16))
    }
}
