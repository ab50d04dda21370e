public import Foundation

/// An object of S3, or of a store that speaks like it: `s3://bucket/key`.
public struct S3Location: Sendable, Hashable, CustomStringConvertible {
    public let bucket: String
    /// Not percent-encoded.
    public let key: String

    /// - Throws: `.invalidURL` where the bucket or the key cannot be one.
    public init(bucket: String, key: String) throws(ImagePipeline.Error) {
        // AWS's rules for names; they also keep a bucket from being a host of somebody else's where it is part of one.
        let isBucket =
            (3...63).contains(bucket.utf8.count) && bucket.first != "." && bucket.last != "." && !bucket.contains("..")
            && bucket.utf8.allSatisfy { Self.bucketCharacters.contains($0) }
        guard isBucket else {
            throw ImagePipeline.Error(
                .invalidURL,
                "\"\(bucket)\" is no name of a bucket: 3 to 63 lower-case letters, digits, dots and hyphens."
            )
        }
        let parts = key.split(separator: "/", omittingEmptySubsequences: false)
        // On its way such a key would become another one.
        guard !key.isEmpty, key.utf8.count <= 1024, !parts.contains("."), !parts.contains(".."), !key.contains("\0")
        else {
            throw ImagePipeline.Error(
                .invalidURL,
                "\"\(key)\" is no key of s3: 1 to 1024 bytes, without \".\" and \"..\" between slashes."
            )
        }
        self.bucket = bucket
        self.key = key
    }

    /// Reads `s3://bucket/key`.
    ///
    /// - Throws: `.invalidURL`.
    public init(_ url: URL) throws(ImagePipeline.Error) {
        guard url.scheme?.lowercased() == "s3", let bucket = url.host(percentEncoded: false), url.port == nil,
            let key = String(url.path(percentEncoded: true).dropFirst()).removingPercentEncoding
        else {
            throw ImagePipeline.Error(.invalidURL, "\"\(url.redacted)\" is no s3: URL; one looks like s3://bucket/key.")
        }
        try self.init(bucket: bucket, key: key)
    }

    public var description: String { "s3://\(bucket)/\(key)" }

    /// `s3://bucket/key`, percent-encoded.
    public var url: URL {
        // Never nil: both parts are of characters that a URL may have.
        URL(string: "s3://\(bucket)/\(Self.encoded(key))") ?? URL(fileURLWithPath: key)
    }

    /// As Signature Version 4 wants it: all but the unreserved characters of RFC 3986, and slashes.
    static func encoded(_ key: String) -> String {
        key.addingPercentEncoding(withAllowedCharacters: unreserved) ?? key
    }

    private static let bucketCharacters = Set("abcdefghijklmnopqrstuvwxyz0123456789.-".utf8)
    private static let unreserved = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"
    )
}
