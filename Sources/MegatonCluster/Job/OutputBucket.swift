internal import Foundation
internal import MegatonPipeline

/// Objects that outputs may be: those of a bucket, or those beneath a prefix of it.
package struct OutputBucket: Sendable, Hashable, CustomStringConvertible {
    let bucket: String
    /// Without slashes at its ends; empty for all objects.
    let prefix: String

    /// - Parameter text: `bucket` or `bucket/prefix`.
    /// - Throws: `JobError` with the reason.
    package init(_ text: String) throws(JobError) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: true).map(String.init)
        bucket = parts.first ?? ""
        prefix = parts.dropFirst().joined(separator: "/")
        do throws(ImagePipeline.Error) {
            _ = try S3Location(bucket: bucket, key: prefix.isEmpty ? "key" : prefix)
        } catch {
            throw JobError("\(FieldProblem.quoted(text)) is neither a bucket nor bucket/prefix: \(error.message)")
        }
    }

    /// Whether an object is one of them. A prefix is a whole part of a key: `thumbs` does not have `thumbs2/a.jpg`.
    package func contains(_ location: S3Location) -> Bool {
        location.bucket == bucket && (prefix.isEmpty || location.key.hasPrefix(prefix + "/"))
    }

    package var description: String { prefix.isEmpty ? bucket : "\(bucket)/\(prefix)" }
}
