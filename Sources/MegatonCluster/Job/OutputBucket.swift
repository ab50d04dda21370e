internal import Foundation
internal import MegatonPipeline

/// Objects that outputs may be: those of a bucket, or those beneath a prefix of it.
package struct OutputBucket: Sendable, Hashable, CustomStringConvertible {
    let bucket: String
    /// Without slashes at its ends; empty for all objects.
    let prefix: String

    /// The rule for names of buckets.
    static let rule = "3 to 63 lower-case letters, digits, dots and hyphens"

    /// - Parameter text: `bucket` or `bucket/prefix`.
    /// - Throws: `JobError` with the reason.
    package init(_ text: String) throws(JobError) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: true).map(String.init)
        bucket = parts.first ?? ""
        prefix = parts.dropFirst().joined(separator: "/")
        do throws(ImagePipeline.Error) {
            _ = try S3Location(bucket: bucket, key: prefix.isEmpty ? "key" : prefix)
        } catch {
            throw JobError(
                "\(FieldProblem.quoted(text)) is neither a bucket nor bucket/prefix: a bucket has \(Self.rule), and a "
                    + "prefix at most 1024 bytes, without \".\" and \"..\" between slashes"
            )
        }
    }

    /// Whether an object is one of them. A prefix is a whole part of a key: `thumbs` does not have `thumbs2/a.jpg`.
    package func contains(_ location: S3Location) -> Bool {
        // By bytes: keys that Unicode considers equal are different.
        location.bucket == bucket && (prefix.isEmpty || location.key.utf8.starts(with: "\(prefix)/".utf8))
    }

    /// Whether the objects are all those of a prefix.
    package func isSame(as other: S3Prefix) -> Bool {
        other.bucket == bucket && other.prefix == (prefix.isEmpty ? "" : "\(prefix)/")
    }

    /// Whether the objects are some of those of a prefix, and not all.
    package func isWithin(_ other: S3Prefix) -> Bool {
        other.bucket == bucket && "\(prefix)/".utf8.starts(with: other.prefix.utf8) && !isSame(as: other)
    }

    /// An object that no job writes, with which the store can be asked for the bucket; nil if the prefix leaves no room
    /// for its name.
    package var probe: S3Location? {
        try? S3Location(bucket: bucket, key: prefix.isEmpty ? Self.probeName : "\(prefix)/\(Self.probeName)")
    }

    private static let probeName = ".megaton-probe"

    /// The beginning of their output template.
    package var url: String { "s3://\(S3Location.encoded(description))/" }

    package var description: String { prefix.isEmpty ? bucket : "\(bucket)/\(prefix)" }
}
