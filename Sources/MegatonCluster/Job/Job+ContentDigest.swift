internal import Crypto
internal import Foundation
internal import MegatonPipeline

extension Job {
    /// Digest of the work and the labels, which distinguishes jobs with the same id: 32 hex digits. It is not computed
    /// from the JSON, which takes as long to write as the validation of a job.
    package var contentDigest: String {
        var fields = [kind.rawValue, source, output ?? "", credential ?? ""]
        if let labels { fields.append(WireJSON.text(labels)) }
        if let failOn { fields.append("failOn=\(failOn.rawValue)") }
        if let replace { fields.append("replace=\(replace.rawValue)") }
        if reload == true { fields.append("reload") }
        if let facts { fields.append("facts=\(facts.map(\.rawValue).joined(separator: ","))") }
        if refresh == true { fields.append("refresh") }
        // A coordinator has put its renditions in the place of the preset.
        if let preset { fields.append("preset=\(preset)") }
        for rendition in renditions ?? [] { fields += [rendition.name] + rendition.identity }
        var hash = SHA256()
        // Each field with its length, so that no field can pass for two.
        for field in fields { hash.update(data: Data("\(field.utf8.count):\(field)".utf8)) }
        return String(hash.finalize().hexDigits.prefix(32))
    }
}
