public import Foundation

/// Endpoint for `s3:` URLs.
public struct S3Endpoint: Sendable, Hashable {
    /// `https://host[:port]` of a self-hosted store; nil for AWS. ``AddressPolicy`` does not apply to its address,
    /// because a source chooses bucket and key only.
    public var url: URL?
    /// Region in the signature, such as `us-east-1`.
    public var region: String
    /// Whether URLs are `endpoint/bucket/key` in place of `bucket.endpoint/key`.
    public var usesPathStyle: Bool

    /// - Parameters:
    ///   - region: `us-east-1` by default.
    ///   - usesPathStyle: by default true with a `url`, because few self-hosted stores have a host name for each
    ///     bucket.
    public init(url: URL? = nil, region: String = "us-east-1", usesPathStyle: Bool? = nil) {
        self.url = url
        self.region = region
        self.usesPathStyle = usesPathStyle ?? (url != nil)
    }

    /// URL of the store for messages, without a secret.
    package var name: String { base?.redacted ?? region }

    private var base: URL? { url ?? URL(string: "https://s3.\(region).amazonaws.com") }

    /// Checks that objects can be requested from the endpoint.
    ///
    /// - Throws: `.invalidURL` if its URL is invalid, has another scheme than http or https, a user or a query.
    package func check() throws(ImageError) {
        _ = try url(of: try S3Location(bucket: "bucket", key: "key"))
    }

    /// HTTP URL of an object.
    ///
    /// - Parameter query: percent-encoded.
    /// - Throws: `.invalidURL` if the endpoint is invalid.
    func url(of location: S3Location, query: String? = nil) throws(ImageError) -> URL {
        try url(ofBucket: location.bucket, name: "\(location)") { components in
            components.percentEncodedPath += "/\(S3Location.encoded(location.key))"
            components.percentEncodedQuery = query
        }
    }

    /// HTTP URL of a listing.
    ///
    /// - Parameter query: percent-encoded.
    /// - Throws: `.invalidURL` if the endpoint is invalid.
    func url(listing prefix: S3Prefix, query: String) throws(ImageError) -> URL {
        try url(ofBucket: prefix.bucket, name: "\(prefix)") { components in
            // A URL without a path would be signed as one, but sent with a slash.
            if components.percentEncodedPath.isEmpty { components.percentEncodedPath = "/" }
            components.percentEncodedQuery = query
        }
    }

    /// - Parameter name: name of the object in messages.
    private func url(
        ofBucket bucket: String,
        name: String,
        _ complete: (inout URLComponents) -> Void
    ) throws(ImageError) -> URL {
        guard let base, let parts = URLParts(base), ["http", "https"].contains(parts.scheme), !parts.hasUser,
            base.query() == nil, var components = URLComponents(url: base, resolvingAgainstBaseURL: true)
        else {
            throw ImageError(
                .invalidURL,
                "The endpoint of s3 (\(url?.redacted ?? region)) is none; one looks like "
                    + "https://minio.example.com:9000."
            )
        }
        var path = components.percentEncodedPath
        while path.hasSuffix("/") { path.removeLast() }
        // No certificate covers a host name that starts with a bucket with dots.
        if usesPathStyle || bucket.contains(".") {
            path += "/\(bucket)"
        } else {
            components.percentEncodedHost = "\(bucket).\(parts.host)"
        }
        components.percentEncodedPath = path
        complete(&components)
        guard let result = components.url else {
            throw ImageError(.invalidURL, "\(name) has no URL at the endpoint \(base.redacted).")
        }
        return result
    }
}
