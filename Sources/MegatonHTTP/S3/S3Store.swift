public import Foundation
internal import FoundationNetworking

/// Writes objects to S3 or a compatible store, with a loader's endpoint, credentials and limits.
public struct S3Store: Sendable {
    /// Properties of an object that decide whether it is written.
    package struct Properties: Sendable, Equatable {
        /// Bytes; nil if the store does not say.
        package var size: Int?
        /// The media type.
        package var contentType: String?
        /// The strong entity tag, with its quotes; nil if the store does not say.
        package var entityTag: String?
        /// SHA-256 of the content, 64 hex digits; nil unless this program has written the object.
        package var sha256: String?
        /// The version that the object was written with.
        package var version: String?
    }

    /// Result of a look at the store.
    package enum Lookup: Sendable, Equatable {
        case found(Properties)
        case absent
        /// The store does not say: a write shows the reason.
        case unknown
    }

    /// An object to write.
    package struct Object: Sendable {
        let location: S3Location
        let data: Data
        let contentType: String
        let sha256: String?
        let version: String?

        /// - Parameters:
        ///   - sha256: of the data, 64 hex digits, kept as `x-amz-meta-sha256`.
        ///   - version: kept as `x-amz-meta-megaton-version`.
        package init(
            _ data: Data,
            at location: S3Location,
            contentType: String,
            sha256: String? = nil,
            version: String? = nil
        ) {
            self.data = data
            self.location = location
            self.contentType = contentType
            self.sha256 = sha256
            self.version = version
        }
    }

    /// State of the store in which an object is written; the store refuses it with status 412 otherwise.
    package enum Condition: Sendable, Equatable {
        case always
        /// There is no object.
        case absent
        /// The object has this entity tag.
        case unchanged(String)
    }

    let loader: any DataLoading
    /// Repetition of POST requests, which the loader does not repeat.
    let retries: RetryingDataLoader.Policy
    /// Those of the loader, for messages.
    let credentials: Credentials

    /// - Parameter loader: its policy must have `s3` among its schemes.
    public init(_ loader: DataLoader) {
        self.loader = loader
        credentials = loader.configuration.credentials
        var retries = RetryingDataLoader.Policy()
        retries.attempts = 1
        self.retries = retries
    }

    /// - Parameters:
    ///   - loader: its policy must have `s3` among its schemes.
    ///   - retries: repetition of each request of a write.
    package init(_ loader: DataLoader, retries: RetryingDataLoader.Policy) {
        self.loader = RetryingDataLoader(loader, retries)
        credentials = loader.configuration.credentials
        self.retries = retries
    }

    /// Stores an object atomically and replaces an existing one.
    ///
    /// - Parameters:
    ///   - data: at most 5 GB (the limit of S3 for one request). Signed with its SHA-256, so that S3 rejects data
    ///     damaged in transit.
    ///   - contentType: a media type.
    /// - Throws: `.accessDenied`, `.notFound` (no such bucket), `.httpStatus` or a network error.
    public func put(
        _ data: Data,
        to location: S3Location,
        contentType: String = "application/octet-stream"
    ) async throws(ImageError) {
        try await put(Object(data, at: location, contentType: contentType), if: .always)
    }

    /// Stores an object with one request.
    func put(_ object: Object, if condition: Condition) async throws(ImageError) {
        var request = request("PUT", object.location)
        request.httpBody = object.data
        request.describe(object)
        request.require(condition)
        // A successful response has no body, and an error only a few lines.
        _ = try await loader.data(for: request, limit: CurlRequest.headerLimit)
    }

    /// Looks an object up, without its content.
    ///
    /// - Throws: an error that may pass, such as one of the network, or `.cancelled`.
    package func lookup(_ location: S3Location) async throws(ImageError) -> Lookup {
        let response: URLResponse?
        do throws(ImageError) {
            response = try await loader.data(for: request("HEAD", location), limit: CurlRequest.headerLimit).response
        } catch {
            if error.code == .notFound { return .absent }
            // The answer has no body with the reason. It is 403 for a missing object, too, if the credential has no
            // s3:ListBucket.
            if error.status != nil && !error.isRetryable { return .unknown }
            throw error
        }
        guard let response = response as? HTTPURLResponse else { return .unknown }
        func field(_ name: String) -> String? { response.value(forHTTPHeaderField: name) }
        return .found(
            Properties(
                size: field("Content-Length").flatMap { Int($0) },
                contentType: field("Content-Type"),
                // A weak one, of a proxy, never matches.
                entityTag: field("ETag").flatMap { $0.hasPrefix("W/") ? nil : $0 },
                sha256: field(URLRequest.sha256Field),
                version: field(URLRequest.versionField)
            )
        )
    }

    func request(_ method: String, _ location: S3Location, query: String? = nil) -> URLRequest {
        var request = URLRequest(url: location.url)
        request.httpMethod = method
        request.s3Query = query
        return request
    }

    /// The error of a write in words: event, object, reason and remedy.
    ///
    /// - Returns: an error with the code `.outputFailed`, which is retryable if the store is busy or cannot be reached.
    package func explained(_ error: ImageError, _ location: S3Location) -> ImageError {
        if error.code == .cancelled { return error }
        let signing = S3Problem.Signing(credentials, for: location.url)
        let reason = S3Problem.reason(
            of: error,
            bucket: location.bucket,
            permission: "s3:PutObject",
            signing: signing
        )
        // 409 is that of two conditional writes at the same time.
        return ImageError(
            .outputFailed,
            FieldProblem.sentence("\(location) cannot be written: \(reason)"),
            isRetryable: error.isRetryable || error.status == 409,
            retryAfter: error.retryAfter,
            status: error.status
        )
    }
}

extension URLRequest {
    fileprivate static let sha256Field = "x-amz-meta-sha256"
    fileprivate static let versionField = "x-amz-meta-megaton-version"

    /// Sets the header fields that an object keeps.
    mutating func describe(_ object: S3Store.Object) {
        setValue(object.contentType, forHTTPHeaderField: "Content-Type")
        if let sha256 = object.sha256 { setValue(sha256, forHTTPHeaderField: Self.sha256Field) }
        if let version = object.version { setValue(version, forHTTPHeaderField: Self.versionField) }
    }

    /// Sets the header field of a condition.
    mutating func require(_ condition: S3Store.Condition) {
        switch condition {
        case .always: break
        case .absent: setValue("*", forHTTPHeaderField: "If-None-Match")
        case .unchanged(let tag): setValue(tag, forHTTPHeaderField: "If-Match")
        }
    }
}
