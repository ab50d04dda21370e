package import Foundation

/// The keys of a bucket that begin alike: `s3://bucket/prefix/`.
package struct S3Prefix: Sendable, Hashable, CustomStringConvertible {
    /// The bucket's name.
    package let bucket: String
    /// Beginning of the keys, not percent-encoded; empty for all keys.
    package let prefix: String

    /// Parses `s3://bucket/prefix/`.
    ///
    /// - Throws: `.invalidURL`, also for a query or a fragment.
    package init(_ url: URL) throws(ImageError) {
        guard url.scheme?.lowercased() == "s3", let bucket = url.host(percentEncoded: false), url.port == nil,
            let prefix = String(url.path(percentEncoded: true).dropFirst()).removingPercentEncoding
        else {
            throw ImageError(.invalidURL, "\"\(url.redacted)\" is not an s3: URL; an example is s3://bucket/prefix/.")
        }
        // A shorter prefix would have been listed.
        guard url.query() == nil, url.fragment() == nil else {
            throw ImageError(
                .invalidURL,
                "\"s3://\(bucket)/\(S3Location.encoded(prefix))\" is followed by a query or a fragment, and a prefix has "
                    + "neither: write ? as %3F and # as %23."
            )
        }
        // The rules for names are those of an object's.
        _ = try S3Location(bucket: bucket, key: prefix.isEmpty ? "key" : prefix)
        self.bucket = bucket
        self.prefix = prefix
    }

    package var description: String { "s3://\(bucket)/\(prefix)" }

    /// `s3://bucket/prefix/`, percent-encoded.
    var url: URL {
        // Never nil: both parts consist of characters that a URL may contain.
        URL(string: "s3://\(bucket)/\(S3Location.encoded(prefix))") ?? URL(fileURLWithPath: prefix)
    }

    /// Query of ListObjectsV2 for one page. Its fields are sorted and fully encoded, as they are signed.
    ///
    /// - Parameter token: where the page before it ended; nil for the first page.
    func query(after token: String?, count: Int) -> String {
        // Keys may have characters that XML cannot represent, so that the store is asked to encode them.
        let fields = [
            ("continuation-token", token), ("encoding-type", "url"), ("list-type", "2"), ("max-keys", "\(count)"),
            ("prefix", prefix.isEmpty ? nil : prefix),
        ]
        return fields.compactMap { name, value in
            value.map { "\(name)=\(S3Location.encoded($0).replacing("/", with: "%2F"))" }
        }.joined(separator: "&")
    }
}
