public import Foundation
internal import FoundationNetworking

/// Writes objects to S3 or a compatible store, with a loader's endpoint, credentials and limits.
public struct S3Store: Sendable {
    private let loader: DataLoader

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
        var request = URLRequest(url: location.url)
        request.httpMethod = "PUT"
        request.httpBody = data
        request.setValue(contentType, forHTTPHeaderField: "Content-Type")
        // A successful response has no body, and an error only a few lines.
        _ = try await loader.data(for: request, limit: CurlRequest.headerLimit)
    }
}
