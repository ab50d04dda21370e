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
        /// The field `x-amz-meta-sha256`, which this program writes.
        package var sha256: String?
    }

    /// An object to write.
    package struct Object: Sendable {
        let location: S3Location
        let data: Data
        let contentType: String
        /// 64 hex digits.
        let sha256: String?

        package init(_ data: Data, at location: S3Location, contentType: String, sha256: String? = nil) {
            self.data = data
            self.location = location
            self.contentType = contentType
            self.sha256 = sha256
        }
    }

    let loader: any DataLoading

    /// - Parameter loader: its policy must have `s3` among its schemes.
    public init(_ loader: DataLoader) { self.loader = loader }

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
        try await put(Object(data, at: location, contentType: contentType), onlyIfAbsent: false)
    }

    /// Stores an object with one request.
    ///
    /// - Parameter onlyIfAbsent: whether the store refuses it, with status 412, if there is an object.
    package func put(_ object: Object, onlyIfAbsent: Bool) async throws(ImageError) {
        var request = request("PUT", object.location)
        request.httpBody = object.data
        request.describe(object)
        if onlyIfAbsent { request.setValue("*", forHTTPHeaderField: "If-None-Match") }
        // A successful response has no body, and an error only a few lines.
        _ = try await loader.data(for: request, limit: CurlRequest.headerLimit)
    }

    /// The properties of an object.
    ///
    /// - Returns: nil if there is no object, or if the credential may not know that.
    /// - Throws: `.httpStatus` or a network error.
    package func properties(of location: S3Location) async throws(ImageError) -> Properties? {
        let response: URLResponse?
        do throws(ImageError) {
            response = try await loader.data(for: request("HEAD", location), limit: CurlRequest.headerLimit).response
        } catch {
            // Without s3:ListBucket the answer for a missing object is 403. The write shows whether it is allowed.
            if [.notFound, .accessDenied].contains(error.code) { return nil }
            throw error
        }
        guard let response = response as? HTTPURLResponse else { return nil }
        func field(_ name: String) -> String? { response.value(forHTTPHeaderField: name) }
        return Properties(
            size: field("Content-Length").flatMap { Int($0) },
            contentType: field("Content-Type"),
            sha256: field("x-amz-meta-sha256")
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
    /// - Returns: an error with the code `.outputExists` if the object must not be replaced, and `.outputFailed`
    ///   otherwise. It may be tried again if the store is busy or cannot be reached.
    package static func explained(_ error: ImageError, _ location: S3Location) -> ImageError {
        if error.code == .cancelled { return error }
        if error.status == 412 {
            return ImageError(
                .outputExists,
                "\(location) has other content, and the job may not replace it (\"replace\": \"none\").",
                isRetryable: false
            )
        }
        let reason = S3Problem.reason(of: error, bucket: location.bucket, permission: "s3:PutObject")
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
    /// Sets the header fields that an object keeps.
    mutating func describe(_ object: S3Store.Object) {
        setValue(object.contentType, forHTTPHeaderField: "Content-Type")
        if let sha256 = object.sha256 { setValue(sha256, forHTTPHeaderField: "x-amz-meta-sha256") }
    }
}
