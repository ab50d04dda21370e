public import Foundation
internal import MegatonCore

/// An object in S3 or a compatible store: `s3://bucket/key`.
public struct S3Location: Sendable, Hashable, CustomStringConvertible {
    /// The bucket's name.
    public let bucket: String
    /// Key, not percent-encoded.
    public let key: String

    /// - Throws: `.invalidURL` if the bucket or the key is invalid.
    public init(bucket: String, key: String) throws(ImageError) {
        // Naming rules of AWS. They also keep a bucket that becomes part of a host name from naming another host.
        let isBucket =
            (3...63).contains(bucket.utf8.count) && bucket.first != "." && bucket.last != "." && !bucket.contains("..")
            && bucket.utf8.allSatisfy { Self.bucketCharacters.contains($0) }
        guard isBucket else {
            throw ImageError(
                .invalidURL,
                "\"\(bucket)\" is not the name of a bucket: 3 to 63 lower-case letters, digits, dots and hyphens."
            )
        }
        let parts = key.pathComponents()
        // Normalization on the way to the server would turn such a key into another one.
        guard !key.isEmpty, key.utf8.count <= 1024, !parts.contains("."), !parts.contains(".."), !key.contains("\0")
        else {
            throw ImageError(
                .invalidURL,
                "\"\(key)\" is not a key of s3: 1 to 1024 bytes, without \".\" and \"..\" between slashes."
            )
        }
        self.bucket = bucket
        self.key = key
    }

    /// Parses `s3://bucket/key`, whose key is percent-encoded.
    ///
    /// - Throws: `.invalidURL`, also for a query or a fragment.
    public init(_ url: URL) throws(ImageError) {
        guard url.scheme?.lowercased() == "s3", let bucket = url.host(percentEncoded: false), url.port == nil,
            let key = String(url.path(percentEncoded: true).dropFirst()).removingPercentEncoding
        else {
            throw ImageError(.invalidURL, "\"\(url.redacted)\" is not an s3: URL; an example is s3://bucket/key.")
        }
        // Another object than the one that was meant would be found.
        guard url.query() == nil, url.fragment() == nil else {
            throw ImageError(
                .invalidURL,
                "\"s3://\(bucket)/\(Self.encoded(key))\" is followed by a query or a fragment, and an s3: URL has neither: "
                    + "the newest version of an object is read, and in a key, ? is written as %3F and # as %23."
            )
        }
        try self.init(bucket: bucket, key: key)
    }

    public var description: String { "s3://\(bucket)/\(key)" }

    /// `s3://bucket/key`, percent-encoded.
    public var url: URL {
        // Never nil: both parts consist of characters that a URL may contain.
        URL(string: "s3://\(bucket)/\(Self.encoded(key))") ?? URL(fileURLWithPath: key)
    }

    /// Percent-encodes a key for Signature Version 4: all but the unreserved characters of RFC 3986, and slashes.
    package static func encoded(_ key: String) -> String {
        key.addingPercentEncoding(withAllowedCharacters: unreserved) ?? key
    }

    private static let bucketCharacters = Set("abcdefghijklmnopqrstuvwxyz0123456789.-".utf8)
    private static let unreserved = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"
    )
}
