public import Foundation

/// Where `s3:` URLs are asked for.
public struct S3Endpoint: Sendable, Hashable {
    /// `https://host[:port]` of a store of one's own; nil for AWS. Its address is not asked about (``AddressPolicy``):
    /// who may choose a source chooses bucket and key alone.
    public var url: URL?
    public var region: String
    /// `endpoint/bucket/key` in the place of `bucket.endpoint/key`.
    public var usesPathStyle: Bool

    /// - Parameters:
    ///   - region: `us-east-1` unless told otherwise.
    ///   - usesPathStyle: by default with an endpoint of one's own, as few of those have a name for each bucket.
    public init(url: URL? = nil, region: String = "us-east-1", usesPathStyle: Bool? = nil) {
        self.url = url
        self.region = region
        self.usesPathStyle = usesPathStyle ?? (url != nil)
    }

    /// Whether objects can be asked for there at all.
    ///
    /// - Throws: `.invalidURL` where the URL is none, by other schemes than http and https, or with a user or a query.
    public func check() throws(ImagePipeline.Error) {
        _ = try url(of: try S3Location(bucket: "bucket", key: "key"))
    }

    /// The URL by HTTP.
    ///
    /// - Throws: `.invalidURL` where the endpoint is none.
    func url(of location: S3Location) throws(ImagePipeline.Error) -> URL {
        let base = url ?? URL(string: "https://s3.\(region).amazonaws.com")
        guard let base, let parts = URLParts(base), ["http", "https"].contains(parts.scheme), !parts.hasUser,
            base.query() == nil, var components = URLComponents(url: base, resolvingAgainstBaseURL: true)
        else {
            throw ImagePipeline.Error(
                .invalidURL,
                "The endpoint of s3 (\(url?.redacted ?? region)) is none; one looks like https://minio.example.com:9000."
            )
        }
        var path = components.percentEncodedPath
        while path.hasSuffix("/") { path.removeLast() }
        // Names with dots are covered by no certificate as a part of a host.
        if usesPathStyle || location.bucket.contains(".") {
            path += "/\(location.bucket)"
        } else {
            components.percentEncodedHost = "\(location.bucket).\(parts.host)"
        }
        components.percentEncodedPath = "\(path)/\(S3Location.encoded(location.key))"
        guard let result = components.url else {
            throw ImagePipeline.Error(.invalidURL, "\(location) has no URL at the endpoint \(base.redacted).")
        }
        return result
    }
}
