public import Foundation
internal import FoundationNetworking

/// Writes objects to S3, or to a store that speaks like it, with a loader's endpoint, credentials and limits.
public struct S3Store: Sendable {
    private let loader: DataLoader

    /// - Parameter loader: one whose policy has `s3` among its schemes.
    public init(_ loader: DataLoader) { self.loader = loader }

    /// Stores an object, in the place of the one that was there: whole or not at all.
    ///
    /// - Parameters:
    ///   - data: at most 5 GB (the limit of S3 for one request). Signed with its SHA-256, so that S3 refuses what was
    ///     damaged on its way.
    ///   - contentType: a media type.
    /// - Throws: `.accessDenied`, `.notFound` (no such bucket), `.httpStatus` or an error of the network.
    public func put(
        _ data: Data,
        to location: S3Location,
        contentType: String = "application/octet-stream"
    ) async throws(ImagePipeline.Error) {
        var request = URLRequest(url: location.url)
        request.httpMethod = "PUT"
        request.httpBody = data
        request.setValue(contentType, forHTTPHeaderField: "Content-Type")
        // S3's answer has no body; an error's is of a few lines.
        _ = try await loader.data(for: request, limit: CurlExchange.headerLimit)
    }
}
